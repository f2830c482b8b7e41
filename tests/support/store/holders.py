"""Processes of ours that hold locks until they are told to go on, or killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import anyio

from bullpen.errors import Unavailable
from bullpen.protocol.changes import Change, Deliver, PutMember, PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.contract import StoreLimits, View
from bullpen.store.files.disk import Disk
from bullpen.store.files.store import FileStore
from bullpen.testing.sample_records import config, member, message, put, task

from .peers import INBOX, TEAM

FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(["bullpen.store.files.store", "bullpen.testing.sample_records"])

DEADLINE_S = 30.0


def wait_for(path: Path) -> None:
    """Wait until another process made a file."""
    deadline = time.monotonic() + DEADLINE_S
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.002)


class DyingAt(Disk):
    """Kills the process with -9 before one step, as `CountingDisk` spells it.

    The step that puts a file in its place is a `place`, whichever call does it.
    """

    def __init__(self, point: str) -> None:
        super().__init__()
        self._point = point

    def step(self, what: str, path: str) -> None:
        step = "place" if what in ("rename", "exchange") else what
        if f"{step} {os.path.basename(path)}" == self._point:
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class DiesHoldingLocks:
    """Commits to a task, the config and an inbox, and is killed at a step of that."""

    home: Path
    point: str
    msg_id: str

    def __call__(self) -> None:
        store = FileStore(self.home, disk=DyingAt(self.point))
        changes = (
            PutTask(task("1", owner="ann")),
            PutMember(member("cleo")),
            Deliver(INBOX, message(self.msg_id)),
        )
        anyio.run(lambda: put(store, *changes))


@dataclass(frozen=True, slots=True)
class HoldsTheTeam:
    """Sits in a decide function until it may go on, then adds a task."""

    home: Path

    @property
    def inside(self) -> Path:
        return self.home / "inside"

    @property
    def go_on(self) -> Path:
        return self.home / "go-on"

    def __call__(self) -> None:
        def decide(view: View) -> list[Change]:
            self.inside.touch()
            wait_for(self.go_on)
            return [PutTask(task("77"))]

        store = FileStore(self.home)
        anyio.run(lambda: store.commit(TEAM, decide, actor=LEAD, op="held"))


@dataclass(frozen=True, slots=True)
class DiesWithAChildAlive:
    """Uses the store, forks a child that lives on, and is killed while it holds the team."""

    home: Path

    @property
    def child(self) -> Path:
        return self.home / "child"

    def __call__(self) -> None:
        store = FileStore(self.home)
        anyio.run(lambda: put(store, PutTask(task("5"))))
        if (pid := os.fork()) == 0:
            time.sleep(DEADLINE_S)
            os._exit(0)
        self.child.write_text(str(pid))

        def decide(view: View) -> list[Change]:
            os.kill(os.getpid(), signal.SIGKILL)
            return []

        anyio.run(lambda: store.commit(TEAM, decide, actor=LEAD, op="dying"))


@dataclass(frozen=True, slots=True)
class ForksWhileItHolds:
    """Forks inside a decide function; the child tries to write too, and says how that went."""

    home: Path

    @property
    def answer(self) -> Path:
        return self.home / "answer"

    def __call__(self) -> None:
        store = FileStore(self.home, limits=StoreLimits(lock_wait_s=0.2))

        def decide(view: View) -> list[Change]:
            if (pid := os.fork()) == 0:
                self._in_the_child(store)
            os.waitpid(pid, 0)
            # The child is gone, with all it had open. A stranger must still be kept out.
            stranger = FileStore(self.home, limits=StoreLimits(lock_wait_s=0.2))
            self._note("stranger", lambda: _write(stranger))
            return [PutTask(task("78"))]

        anyio.run(lambda: store.commit(TEAM, decide, actor=LEAD, op="held"))

    def _in_the_child(self, store: FileStore) -> None:
        try:
            self._note("child", lambda: _write(store))
        finally:
            os._exit(0)

    def _note(self, who: str, work: Callable[[], None]) -> None:
        try:
            work()
            found = "got in"
        except Unavailable:
            found = "was kept out"
        with self.answer.open("a", encoding="utf-8") as file:
            file.write(f"{who} {found}\n")


@dataclass(frozen=True, slots=True)
class WritesWithoutRights:
    """Writes to a team of its own as an ordinary user, whoever runs the tests."""

    home: Path
    user: int = 65_534

    def __call__(self) -> None:
        anyio.run(self._make_and_write, self.home / "warm-up")  # So that all is imported.
        own = self.home / "own"
        own.mkdir()
        if os.getuid() == 0:
            os.chown(own, self.user, self.user)
            os.setgroups([])
            os.setgid(self.user)
            os.setuid(self.user)
        anyio.run(self._make_and_write, own)

    async def _make_and_write(self, home: Path) -> None:
        store = FileStore(home)
        await store.create(TEAM, config(TEAM), actor=LEAD)
        for number in range(3):
            await put(
                store,
                PutTask(task("1", subject=str(number))),
                PutMember(member("cleo")),
                Deliver(INBOX, message(f"m{number}")),
            )
        await store.acknowledge(TEAM, INBOX, ["m1"], "seen", actor=INBOX)
        await store.aclose()


def _write(store: FileStore) -> None:
    with store._existing(TEAM).writing():
        pass


def start(body: Callable[[], None]) -> BaseProcess:
    child = FORKSERVER.Process(target=body)
    child.start()
    return child


def run_until_killed(body: Callable[[], None]) -> None:
    child = start(body)
    child.join(DEADLINE_S)
    assert child.exitcode == -signal.SIGKILL
