"""Hand a launch to the launcher over a private socket."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import anyio
from anyio import to_thread

from bullpen.agents.backends import launcher
from bullpen.agents.contracts.backend import Launch
from bullpen.agents.system import processes
from bullpen.errors import Unavailable

_LOOK_S = 0.2
_PREFIX = "bullpen-launch-"
_KEPT_S = 3600
# A socket path has room for about 100 bytes; about 40 of them come after this.
_FOLDER_BYTES_MAX = 60


class Offer:
    """A launch that waits for a process to take it over."""

    def __init__(self, launch: Launch, listener: socket.socket, path: str) -> None:
        self._launch, self._listener, self._path = launch, listener, path

    @property
    def words(self) -> tuple[str, ...]:
        """The command of the process that takes it over. It contains no secret."""
        flags = ("-I", "-S", "-X", "utf8")
        return (sys.executable, *flags, os.path.abspath(launcher.__file__), self._path)

    async def taken(self, pid: int, start: str) -> bool:
        """Hand the launch over. False if the process died before. Raises Unavailable."""
        line = await self._visitor(pid, start)
        if line is None:
            return False
        with line:
            try:
                said = await _exchange(line, _packed(self._launch))
            except ConnectionError:
                return False
        if said:
            raise cannot_start(self._launch, said.decode("utf-8", "replace"))
        return True

    async def _visitor(self, pid: int, start: str) -> socket.socket | None:
        """The connection of the process; None if the process ends instead."""
        line = None

        async def give_up_when_dead() -> None:
            # The system does not report the end of a process that is not a child.
            while await to_thread.run_sync(processes.is_alive, pid, start):  # noqa: ASYNC110
                await anyio.sleep(_LOOK_S)
            tasks.cancel_scope.cancel()

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(give_up_when_dead)
                await anyio.wait_readable(self._listener)
                line, _ = self._listener.accept()
                line.setblocking(False)
                tasks.cancel_scope.cancel()
        except BaseException:
            # Cancelled from outside after the process connected.
            if line is not None:
                line.close()
            raise
        return line


async def _exchange(line: socket.socket, data: bytes) -> bytes:
    """Send the data, then read until the other side closes."""
    while data:
        await anyio.wait_writable(line)
        data = data[line.send(data) :]
    line.shutdown(socket.SHUT_WR)
    said = b""
    while True:
        await anyio.wait_readable(line)
        part = line.recv(65536)
        if not part:
            return said
        said += part


@contextmanager
def offered(launch: Launch) -> Iterator[Offer]:
    """Offer a launch while the context lasts."""
    base = tempfile.gettempdir()
    if len(os.fsencode(base)) > _FOLDER_BYTES_MAX:
        base = "/tmp"  # noqa: S108
    _sweep(base)
    folder = tempfile.mkdtemp(prefix=_PREFIX, dir=base)
    try:
        path = f"{folder}/launch"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.setblocking(False)
            listener.bind(path)
            listener.listen(1)
            yield Offer(launch, listener, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(base: str) -> None:
    """Remove old sockets of processes that were killed during an offer."""
    old = time.time() - _KEPT_S
    with os.scandir(base) as entries:
        left = [entry for entry in entries if entry.name.startswith(_PREFIX)]
    for entry in left:
        with suppress(OSError):
            found = entry.stat(follow_symlinks=False)
            if found.st_uid == os.getuid() and found.st_mtime < old:
                os.unlink(f"{entry.path}/launch")
                os.rmdir(entry.path)


def cannot_start(launch: Launch, why: object) -> Unavailable:
    """The error of a launch that failed."""
    return Unavailable(
        f"{launch.agent} cannot be started: {why}.",
        remedy="Check that the program and the directory exist and are accessible.",
    )


def _packed(launch: Launch) -> bytes:
    """A launch in the launcher's format: directory, number of words, words, NAME=VALUE..., END."""
    variables = [f"{name}={value}" for name, value in launch.env.items()]
    fields = [launch.cwd, str(len(launch.argv)), *launch.argv, *variables]
    if any("\0" in field for field in fields):
        raise cannot_start(launch, "embedded null byte")
    return b"\0".join([*map(os.fsencode, fields), launcher.END])
