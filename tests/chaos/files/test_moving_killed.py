"""Killed with -9 before every step of a restore, half-way through its writes, during a move."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from bullpen.errors import Conflict, Unavailable
from bullpen.protocol.changes import DeleteTask, Event, PutRequest, PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.contract import StoreLimits
from bullpen.store.files.disk import Disk
from bullpen.store.files.store import FileStore
from bullpen.store.memory import MemoryStore
from bullpen.team.moving.move import move
from bullpen.team.operation.commit import mark_of
from bullpen.testing.faults import CountingDisk, DyingDisk, FailingDisk
from bullpen.testing.restore_contract import texts
from bullpen.testing.sample_records import (
    assert_replay_is_live,
    config,
    message,
    put,
    request,
    task,
)

pytestmark = pytest.mark.no_loss

FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(["bullpen.testing.restore_contract", "bullpen.store.memory"])
LIMITS = StoreLimits(lock_wait_s=5.0, seen_kept=1)


async def _history() -> list[Event]:
    store = MemoryStore(limits=LIMITS)
    await store.create("alpha", config(), actor=LEAD)
    await put(store, *(PutTask(task(str(number))) for number in range(1, 4)))
    await put(store, DeleteTask("3"), PutRequest(request("r1")))
    ids = [f"m{number}" for number in range(5)]
    for msg_id in ids:
        await store.append("alpha", "ann", message(msg_id), actor=LEAD)
    await store.acknowledge("alpha", "ann", ids[:3], "seen", actor="ann")
    await store.acknowledge("alpha", "ann", ids[3:4], "injected", actor="ann")
    return await store.events("alpha")


@pytest.fixture(scope="module")
def history() -> list[Event]:
    return anyio.run(_history)


def store_on(home: Path, disk: Disk | None = None) -> FileStore:
    disk = disk or Disk(fsync=False)
    return FileStore(home, clock=lambda: 1_700_000_000_000, limits=LIMITS, disk=disk)


class Dying(DyingDisk):
    """Does not wait for the disk: whoever is killed needs no sync to be survived by its writes."""

    def sync(self, fd: int, path: str) -> None:
        self.step("fsync", path)

    def sync_dir(self, path: str) -> None:
        self.step("fsync", path)


def restore(home: Path, events: Sequence[Event], disk: Disk) -> None:
    """What a child process does, on a disk that may kill it."""
    anyio.run(store_on(home, disk).restore, "alpha", events)


def steps_of(home: Path, events: Sequence[Event]) -> list[str]:
    disk = CountingDisk()
    restore(home, events, disk)
    return disk.steps


def kill_at(home: Path, events: Sequence[Event], n: int, *, torn: bool) -> None:
    child = FORKSERVER.Process(target=restore, args=(home, events, Dying(n, torn=torn)))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL


async def found_in(home: Path, history: Sequence[Event]) -> str:
    """`whole` or `nothing`: what a new process finds."""
    store = store_on(home)
    if await store.teams() == []:
        return "nothing"
    assert await store.teams() == ["alpha"]
    assert texts(await store.events("alpha")) == texts(history)
    await assert_replay_is_live(store)
    assert await store.checkup("alpha", fix=False) == []
    return "whole"


async def begin_anew(home: Path, history: Sequence[Event]) -> None:
    """Whoever comes next makes the team, as if nobody had tried before."""
    store = store_on(home)
    await store.restore("alpha", history)
    assert await found_in(home, history) == "whole"
    assert [each for each in await store.checkup(None, fix=True) if not each.fixed] == []


async def make_another(home: Path, _history: Sequence[Event]) -> None:
    """Somebody else has the name for a team that knows nothing of the dead one."""
    store = store_on(home)
    await store.create("alpha", config(description="new"), actor=LEAD)
    state = await store.read("alpha")
    assert (state.team.description, state.tasks, state.requests) == ("new", {}, {})
    assert (await store.mailbox("alpha", "ann", history=True)).entries == ()
    assert [event.op for event in await store.events("alpha")] == ["team.create"]


@pytest.mark.parametrize("torn", [False, True], ids=["killed-before", "killed-half-way"])
def test_killed_at_any_step_there_is_the_whole_team_or_none(
    tmp_path: Path, history: list[Event], torn: bool
) -> None:
    steps = steps_of(tmp_path / "whole", history)
    assert len(steps) > 50
    seen = []
    for n in range(1, len(steps) + 1):
        if torn and not steps[n - 1].startswith("write"):
            continue
        home = tmp_path / f"killed{n}"
        kill_at(home, history, n, torn=torn)
        seen.append(anyio.run(found_in, home, history))
        if seen[-1] == "nothing":
            anyio.run(make_another if n % 2 else begin_anew, home, history)
        shutil.rmtree(home)
    assert seen == sorted(seen), "once it is whole, it stays whole"
    assert torn or set(seen) == {"nothing", "whole"}


@pytest.mark.parametrize("forever", [False, True], ids=["one-error", "full-disk"])
def test_refused_by_the_disk_at_any_step_there_is_the_whole_team_or_none(
    tmp_path: Path, history: list[Event], forever: bool
) -> None:
    steps = steps_of(tmp_path / "whole", history)
    for n in range(1, len(steps) + 1):
        home = tmp_path / f"broken{n}"
        try:
            restore(home, history, FailingDisk(n, forever=forever))
            refused = False
        except Unavailable:
            refused = True
        found = anyio.run(found_in, home, history)
        assert refused or found == "whole", steps[n - 1]
        if found == "nothing":
            # Other programs, which do not know our mark, find no half team either.
            assert not (home / "teams/alpha").exists(), steps[n - 1]
            anyio.run(begin_anew, home, history)
        shutil.rmtree(home, ignore_errors=True)


async def _move(home: Path, disk: Disk | None = None) -> None:
    source, target = store_on(home / "1", disk), store_on(home / "2", disk)
    await move(source, target, "alpha", to="files:2", by=LEAD)


def move_in_child(home: Path, disk: Disk) -> None:
    anyio.run(_move, home, disk)


async def living_in(*homes: Path) -> list[str]:
    found = []
    for home in homes:
        store = store_on(home)
        if await store.teams() and mark_of(await store.config("alpha")) is None:
            found.append(home.name)
    return found


def test_a_mover_killed_at_any_moment_is_followed_by_one_that_finishes(
    tmp_path: Path, history: list[Event]
) -> None:
    """The steps of stores are tested one by one; this is a sample of all that the disk does."""
    prepared = tmp_path / "prepared"
    anyio.run(store_on(prepared / "1").restore, "alpha", history)
    whole, disk = tmp_path / "whole", CountingDisk()
    shutil.copytree(prepared, whole)
    anyio.run(_move, whole, disk)
    for n in range(1, len(disk.steps) + 1, 9):
        home = tmp_path / f"killed{n}"
        shutil.copytree(prepared, home)
        child = FORKSERVER.Process(target=move_in_child, args=(home, Dying(n)))
        child.start()
        child.join(60)
        assert child.exitcode == -signal.SIGKILL
        assert len(anyio.run(living_in, home / "1", home / "2")) <= 1, disk.steps[n - 1]
        anyio.run(_move, home)
        assert anyio.run(living_in, home / "1", home / "2") == ["2"], disk.steps[n - 1]
        events = anyio.run(store_on(home / "2").events, "alpha")
        assert texts(events[: len(history)]) == texts(history)
        shutil.rmtree(home)


async def test_a_restore_that_is_under_way_is_waited_for(
    tmp_path: Path, history: list[Event]
) -> None:
    """Who wants the name meanwhile neither gets it nor takes the new team away."""
    outcomes: list[str] = []
    placed, go_on = anyio.Event(), anyio.Event()

    class Slow(Disk):
        def step(self, what: str, path: str) -> None:
            if what == "create" and path.endswith("2.json"):
                anyio.from_thread.run_sync(placed.set)
                anyio.from_thread.run(go_on.wait)

    async def slowly() -> None:
        await store_on(tmp_path, Slow(fsync=False)).restore("alpha", history)
        outcomes.append("restored")

    async def create() -> None:
        await placed.wait()
        store = store_on(tmp_path)
        assert await store.teams() == []
        with pytest.raises(Conflict):
            await store.create("alpha", config(), actor=LEAD)
        outcomes.append("refused")

    async with anyio.create_task_group() as group:
        group.start_soon(slowly)
        group.start_soon(create)
        await placed.wait()
        await anyio.sleep(0.2)
        assert outcomes == []
        go_on.set()
    assert sorted(outcomes) == ["refused", "restored"]
    assert await found_in(tmp_path, history) == "whole"
