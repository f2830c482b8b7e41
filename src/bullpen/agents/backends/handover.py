"""Hands a launch to the launcher over a socket that only this user can reach."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio import to_thread
from anyio.abc import SocketListener, SocketStream

from bullpen.agents import processes
from bullpen.agents.backends import launcher
from bullpen.agents.backends.base import Launch
from bullpen.errors import Unavailable

_LOOK_S = 0.2
# The name of a socket has room for about 100 bytes, some 30 of them for what comes after this.
_FOLDER_BYTES_MAX = 70


class Offer:
    """A launch that waits for a process to take it and to become it."""

    def __init__(self, launch: Launch, listener: SocketListener, path: str) -> None:
        self._launch, self._listener, self._path = launch, listener, path

    @property
    def words(self) -> tuple[str, ...]:
        """The command of the process that takes it: there is no secret in it."""
        flags = ("-I", "-S", "-X", "utf8")
        return (sys.executable, *flags, os.path.abspath(launcher.__file__), self._path)

    async def taken(self, pid: int, start: str) -> bool:
        """Hand the launch over; True when the process has become it, False if it died before.

        Raises:
            Unavailable: it cannot become it; the text says why.
        """
        stream = await self._visitor(pid, start)
        if stream is None:
            return False
        said = b""
        try:
            async with stream:
                await stream.send(_packed(self._launch))
                await stream.send_eof()
                async for part in stream:
                    said += part
        except anyio.BrokenResourceError:
            return False
        if said:
            raise cannot_start(self._launch, said.decode("utf-8", "replace"))
        return True

    async def _visitor(self, pid: int, start: str) -> SocketStream | None:
        """Who comes for the launch; None if the process ends instead."""
        stream = None
        async with anyio.create_task_group() as tasks:

            async def give_up_when_dead() -> None:
                # The system wakes nobody at the end of a process that is not its child.
                while await to_thread.run_sync(processes.is_alive, pid, start):  # noqa: ASYNC110
                    await anyio.sleep(_LOOK_S)
                tasks.cancel_scope.cancel()

            tasks.start_soon(give_up_when_dead)
            stream = await self._listener.accept()
            tasks.cancel_scope.cancel()
        return stream


@asynccontextmanager
async def offered(launch: Launch) -> AsyncIterator[Offer]:
    """Offer a launch as long as the context lasts."""
    base = tempfile.gettempdir()
    if len(os.fsencode(base)) > _FOLDER_BYTES_MAX:
        base = "/tmp"  # noqa: S108
    folder = tempfile.mkdtemp(prefix="bullpen-", dir=base)
    try:
        path = f"{folder}/launch"
        async with await anyio.create_unix_listener(path, mode=0o600) as listener:
            yield Offer(launch, listener, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def cannot_start(launch: Launch, why: object) -> Unavailable:
    """The error of a launch that came to nothing."""
    return Unavailable(
        f"{launch.agent} cannot be started: {why}.",
        remedy="Check that the program and the directory exist and may be used.",
    )


def _packed(launch: Launch) -> bytes:
    """A launch as the launcher reads it: directory, number of words, words, NAME=VALUE..., END."""
    variables = [f"{name}={value}" for name, value in launch.env.items()]
    fields = [launch.cwd, str(len(launch.argv)), *launch.argv, *variables]
    if any("\0" in field for field in fields):
        raise cannot_start(launch, "embedded null byte")
    return b"\0".join([*map(os.fsencode, fields), launcher.END])
