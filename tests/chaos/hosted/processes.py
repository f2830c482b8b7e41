"""Hosts and clients in processes of their own, which can be killed."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

from bullpen.errors import Refused
from bullpen.protocol.changes import Change, PutTask
from bullpen.protocol.message import Message
from bullpen.store.contract import Committed, Decide, Stored, View
from bullpen.store.files.store import FileStore
from bullpen.store.hosted.client import HostedStore
from bullpen.store.hosted.server import HostServer
from bullpen.team.team import Team
from bullpen.testing.sample_records import message
from support.store.hosting import TOKENS

T = TypeVar("T")

_PROCESSES = multiprocessing.get_context("forkserver")
# Modules of the package only: the fork server does not know the path of the tests.
_PROCESSES.set_forkserver_preload(
    ["bullpen.team.team", "bullpen.store.files.store", "bullpen.store.hosted.client"]
)


class Dying(FileStore):
    """Dies of kill -9 at a call that is marked so: before it is carried out, or before the answer.

    Only once: a file says that it happened.
    """

    async def commit(self, team: str, decide: Decide, *, actor: str, op: str) -> Committed:
        return await self._deadly(
            op, lambda: super(Dying, self).commit(team, decide, actor=actor, op=op)
        )

    async def append(
        self, team: str, to: str, message: Message, *, actor: str, fresh: bool = False
    ) -> Stored:
        return await self._deadly(
            message.text,
            lambda: super(Dying, self).append(team, to, message, actor=actor, fresh=fresh),
        )

    async def _deadly(self, mark: str, call: Callable[[], Awaitable[T]]) -> T:
        if mark == "die before":
            self._die()
        result = await call()
        if mark == "die after":
            self._die()
        return result

    def _die(self) -> None:
        with suppress(FileExistsError):
            os.close(os.open(f"{self.home}/died", os.O_CREAT | os.O_EXCL))
            os.kill(os.getpid(), signal.SIGKILL)


def _serve(home: str, path: str, lease_s: float) -> None:
    async def serve() -> None:
        door = HostServer(Dying(Path(home), fsync=False), path, TOKENS.get, lease_s=lease_s)
        async with door:
            await asyncio.Event().wait()

    asyncio.run(serve())


class Host:
    """A host process over files, which can be killed and started again."""

    def __init__(self, folder: Path, *, lease_s: float = 2.0) -> None:
        self.home, self.path = str(folder / "home"), str(folder / "door" / "s")
        self._lease_s = lease_s
        self._process: BaseProcess | None = None

    def start(self) -> None:
        """Begin to listen."""
        args = (self.home, self.path, self._lease_s)
        self._process = _PROCESSES.Process(target=_serve, args=args, daemon=True)
        self._process.start()

    def kill(self) -> None:
        """End it by force; what it had open is gone."""
        assert self._process is not None
        self._process.kill()
        self._process.join(20)

    @property
    def is_dead(self) -> bool:
        """Whether it ended."""
        return self._process is not None and self._process.exitcode is not None


@contextmanager
def host(*, lease_s: float = 2.0) -> Iterator[Host]:
    """A host process that listens, or soon will."""
    with tempfile.TemporaryDirectory(prefix="bp-") as folder:
        held = Host(Path(folder), lease_s=lease_s)
        held.start()
        try:
            yield held
        finally:
            held.kill()


# What client processes do


def start(body: Callable[..., Any], *args: Any) -> BaseProcess:
    """A process that runs a body."""
    process = _PROCESSES.Process(target=body, args=args, daemon=True)
    process.start()
    return process


def finish(processes: Sequence[BaseProcess]) -> None:
    """Wait until all have ended well."""
    deadline = time.monotonic() + 120
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        assert process.exitcode == 0


def claim_all(path: str, number: int, notes: str, go: str) -> None:
    """Claim and finish tasks until there are none, from the same moment on, and note each."""

    async def work() -> list[str]:
        async with aclosing(HostedStore(path, "operator")) as store:
            team, me = Team(store, "alpha"), f"w{number}"
            await store.teams()
            _touch(f"{notes}.ready")
            while not _is_there(go):  # noqa: ASYNC110 - no event crosses processes
                await asyncio.sleep(0.005)
            claimed = []
            while (task := await team.tasks.claim_next(by=me)) is not None:
                claimed.append(task.id)
                await team.tasks.done(task.id, by=me)
            return claimed

    claimed = asyncio.run(work())
    Path(notes).write_text(json.dumps(claimed), encoding="utf-8")


def _touch(path: str) -> None:
    Path(path).touch()


def _is_there(path: str) -> bool:
    return Path(path).exists()


def sit_in_its_turn(path: str, ready: str) -> None:
    """Decide for ever."""

    def decide(view: View) -> Sequence[Change]:
        Path(ready).touch()
        time.sleep(600)
        return ()

    async def sit() -> None:
        async with aclosing(HostedStore(path, "operator")) as store:
            await store.commit("alpha", decide, actor="x", op="x")

    asyncio.run(sit())


def add(view: View) -> Sequence[Change]:
    """One more on the counter, which is task 1."""
    counter = view.task("1")
    if counter is None:
        raise Refused("There is no counter.", reason="no_counter")
    count = (counter.metadata or {}).get("count", 0)
    return [PutTask(counter.evolve(metadata={"count": count + 1}))]


def count_and_send(path: str, number: int, times: int) -> None:
    """Count and send, so many times each."""

    async def work() -> None:
        async with aclosing(HostedStore(path, "operator")) as store:
            for index in range(times):
                await store.commit("alpha", add, actor=f"w{number}", op="count")
                sent = message(f"{number}-{index}")
                await store.append("alpha", "ann", sent, actor=f"w{number}", fresh=True)

    asyncio.run(work())
