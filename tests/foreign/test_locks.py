"""Locks: ours among ourselves, ours against other programs', and those of the dead."""

from __future__ import annotations

import os
import signal
import stat
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.errors import Unavailable
from bullpen.protocol.changes import Change, Deliver, PutMember, PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.base import StoreLimits, View
from bullpen.store.files import locks
from bullpen.store.files.disk import Disk
from bullpen.store.files.locks import OUR_MODE
from bullpen.store.files.store import FileStore
from bullpen.testing.records import assert_replay_is_live, member, message, put, task

from . import holders
from .peers import INBOX, TEAM, Files, make_older

WAIT_S = 0.3
SLACK_S = 1.5


Work = Callable[[FileStore], Coroutine[Any, Any, Any]]


@pytest.fixture
async def hasty(tmp_path: Path, store: FileStore) -> AsyncIterator[FileStore]:
    """The same team in a store that soon gives up."""
    hasty = FileStore(tmp_path, fsync=False, limits=StoreLimits(lock_wait_s=WAIT_S))
    yield hasty
    await hasty.aclose()


# What each needs the lock of that file for.
WRITES: dict[str, Work] = {
    "config.json": lambda store: put(store, PutMember(member("cleo"))),
    ".lock": lambda store: put(store, PutTask(task("9"))),
    "9.json": lambda store: put(store, PutTask(task("9"))),
    "ann.json": lambda store: store.append(TEAM, INBOX, message("m"), actor=LEAD),
    "bob.json": lambda store: put(store, Deliver("bob", message("m"))),
}


def foreign_lock(files: Files, name: str, *, age_s: float = 0.0) -> Path:
    if name == "9.json":
        files.write(files.task("9"), task("9").raw)  # A task that is not there needs no lock.
    folders = {"config.json": files.root, ".lock": files.tasks, "9.json": files.tasks}
    lock = folders.get(name, files.root / "inboxes") / f"{name}.lock"
    lock.mkdir(mode=0o755)
    make_older(lock, age_s)
    return lock


@pytest.mark.parametrize("name", WRITES)
async def test_a_living_lock_of_another_program_is_waited_for_and_then_named(
    hasty: FileStore, files: Files, name: str
) -> None:
    lock, before = foreign_lock(files, name), files.content()
    began = time.monotonic()
    with pytest.raises(Unavailable) as raised:
        await WRITES[name](hasty)
    assert WAIT_S <= time.monotonic() - began < WAIT_S + SLACK_S
    assert str(lock) in str(raised.value)
    assert files.locks() == [lock]
    assert files.content() == before


@pytest.mark.parametrize("name", WRITES)
async def test_a_lock_that_another_program_lets_go_of_is_taken_soon(
    store: FileStore, files: Files, name: str
) -> None:
    lock = foreign_lock(files, name)
    async with anyio.create_task_group() as group:
        group.start_soon(WRITES[name], store)
        await anyio.sleep(0.05)
        lock.rmdir()
        released = time.monotonic()
    assert time.monotonic() - released < 1
    assert files.locks() == []


@pytest.mark.parametrize("name", WRITES)
async def test_a_lock_nobody_refreshed_for_twelve_seconds_is_broken(
    hasty: FileStore, files: Files, name: str
) -> None:
    foreign_lock(files, name, age_s=12)
    await WRITES[name](hasty)
    assert files.locks() == []


@pytest.mark.parametrize("name", WRITES)
async def test_a_lock_that_is_six_seconds_old_is_respected(
    hasty: FileStore, files: Files, name: str
) -> None:
    lock = foreign_lock(files, name, age_s=6)
    with pytest.raises(Unavailable):
        await WRITES[name](hasty)
    assert files.locks() == [lock]


async def test_a_file_in_the_place_of_a_lock_blocks_like_one_for_ten_seconds_only(
    hasty: FileStore, files: Files
) -> None:
    lock = files.root / "config.json.lock"
    lock.touch()
    with pytest.raises(Unavailable) as raised:
        await WRITES["config.json"](hasty)
    assert str(lock) in str(raised.value)
    make_older(lock, 11)
    await WRITES["config.json"](hasty)
    assert files.locks() == []


async def test_a_stale_lock_with_something_in_it_does_not_block(
    hasty: FileStore, files: Files
) -> None:
    lock = foreign_lock(files, "config.json")
    (lock / "note").touch()
    make_older(lock, 12)
    await WRITES["config.json"](hasty)
    assert files.locks() == []


async def test_a_lock_made_anew_while_we_break_the_stale_one_stays(
    files: Files, store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File systems give the new directory the inode number of the old one more often than not."""
    rename = os.rename

    def after_another_was_faster(old: str, new: str) -> None:
        if not new.endswith(".lock"):
            os.rmdir(old)
            os.mkdir(old)
        rename(old, new)

    monkeypatch.setattr(os, "rename", after_another_was_faster)
    for _ in range(20):
        lock = foreign_lock(files, "config.json", age_s=12)
        assert not locks.break_if_dead(str(lock), Disk())
        assert files.locks() == [lock]
        assert time.time() - lock.stat().st_mtime < 5
        lock.rmdir()


class Watched(Disk):
    """Calls back at every step."""

    def __init__(self, callback: Callable[[str, str], None]) -> None:
        super().__init__(fsync=False)
        self._callback = callback

    def step(self, what: str, path: str) -> None:
        self._callback(what, path)


async def test_a_broken_lock_stays_free_for_a_moment_before_we_make_our_own(
    tmp_path: Path, store: FileStore, files: Files
) -> None:
    """Who found the same lock dead may be about to remove it: the removal must not hit ours."""
    lock = foreign_lock(files, "config.json", age_s=12)
    moments: list[tuple[str, float]] = []

    def note(what: str, path: str) -> None:
        if path.startswith(str(lock)):
            moments.append((what, time.monotonic()))

    await WRITES["config.json"](FileStore(tmp_path, disk=Watched(note)))
    (broken,) = [moment for what, moment in moments if what == "rmdir"]
    taken = min(moment for _, moment in moments if moment > broken)
    assert taken - broken >= 0.04


async def test_our_locks_are_empty_directories_that_no_other_program_would_make(
    tmp_path: Path, store: FileStore, files: Files
) -> None:
    held: set[str] = set()

    def look(what: str, path: str) -> None:
        for lock in files.locks():
            held.add(lock.name)
            assert list(lock.iterdir()) == []
            assert stat.S_IMODE(lock.stat().st_mode) == OUR_MODE

    await put(store, PutTask(task("9")))
    changes = (PutTask(task("9")), PutMember(member("cleo")), Deliver("bob", message("m")))
    await put(FileStore(tmp_path, disk=Watched(look)), *changes)
    assert held == {".lock.lock", "9.json.lock", "config.json.lock", "bob.json.lock"}
    assert files.locks() == []


async def test_a_lock_that_was_taken_from_us_is_noticed_and_left_alone(
    tmp_path: Path, store: FileStore, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped for more than 10 s with the locks in hand, we look dead to everybody else."""
    monkeypatch.setattr(locks, "REFRESH_S", 0.0)
    lock = files.root / "config.json.lock"
    before = files.config.read_bytes()

    def take_it(what: str, path: str) -> None:
        if what == "write" and path.endswith("events.jsonl"):
            lock.rmdir()
            lock.mkdir(mode=0o755)

    with pytest.raises(Unavailable) as raised:
        await WRITES["config.json"](FileStore(tmp_path, disk=Watched(take_it)))
    assert str(lock) in str(raised.value)
    assert files.locks() == [lock]
    assert files.config.read_bytes() == before
    lock.rmdir()
    await assert_replay_is_live(store)


def test_our_locks_need_no_more_rights_than_an_ordinary_user_has() -> None:
    """A directory that changes its parent must be writable itself. Only root may do without."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        home.chmod(0o755)
        child = holders.start(holders.WritesWithoutRights(home))
        child.join(holders.DEADLINE_S)
        assert child.exitcode == 0
        assert Files(home / "own").locks() == []


# The last two are the moments before the first and the third of four locks are let go.
DEATHS = [
    "write events.jsonl",
    "fsync events.jsonl",
    "place 1.json",
    "place config.json",
    "place ann.json",
    "fsync inboxes",
    "place 3.lock",
    "place 1.lock",
]


@pytest.mark.parametrize("point", DEATHS)
async def test_a_process_of_ours_killed_with_locks_in_hand_delays_the_next_by_no_time(
    tmp_path: Path, store: FileStore, files: Files, point: str
) -> None:
    await put(store, PutTask(task("1")), Deliver(INBOX, message("first")))
    delays = []
    for number in range(3):
        holders.run_until_killed(holders.DiesHoldingLocks(tmp_path, point, f"dying{number}"))
        assert files.locks() != []
        began = time.monotonic()
        changes = (
            PutTask(task("1", owner="bob")),
            PutMember(member("bob")),
            Deliver(INBOX, message(f"next{number}")),
        )
        await put(store, *changes)
        delays.append(time.monotonic() - began)
        assert files.locks() == []
    # A busy machine may be late once; a lock that is not free is late by seconds, every time.
    assert min(delays) < 0.2
    assert max(delays) < 2.0
    await assert_replay_is_live(store)


@pytest.mark.parametrize("point", ["write events.jsonl", "place 1.json", "place 1.lock"])
async def test_the_next_of_ours_removes_all_locks_of_a_killed_one_whatever_it_does_itself(
    tmp_path: Path, store: FileStore, files: Files, point: str
) -> None:
    """Another program gives up on an inbox after 0.9 s, and takes a lock over after 10 s only."""
    await put(store, PutTask(task("1")), Deliver(INBOX, message("first")))
    holders.run_until_killed(holders.DiesHoldingLocks(tmp_path, point, "dying"))
    assert files.locks() != []
    await store.append(TEAM, "bob", message("m"), actor=LEAD)
    assert files.locks() == []


@pytest.fixture
def held(tmp_path: Path, store: FileStore) -> Iterator[BaseProcess]:
    """A process of ours holds the team, and is stopped."""
    body = holders.HoldsTheTeam(tmp_path)
    child = holders.start(body)
    try:
        holders.wait_for(body.inside)
        assert child.pid
        os.kill(child.pid, signal.SIGSTOP)
        yield child
        os.kill(child.pid, signal.SIGCONT)
        body.go_on.touch()
        child.join(holders.DEADLINE_S)
        assert child.exitcode == 0
    finally:
        child.kill()
        child.join()


LOCKING: dict[str, Work] = {
    "commit": lambda store: put(store, PutTask(task("9"))),
    "append": lambda store: store.append(TEAM, INBOX, message("m"), actor=LEAD),
    "acknowledge": lambda store: store.acknowledge(TEAM, INBOX, ["m"], "seen", actor=INBOX),
    "events": lambda store: store.events(TEAM),
    "checkup": lambda store: store.checkup(TEAM, fix=False),
    "mend": lambda store: store.checkup(TEAM, fix=True),
    "delete": lambda store: store.delete(TEAM, actor=LEAD),
}


async def test_a_stopped_holder_of_the_team_is_named_at_the_deadline_and_never_robbed(
    store: FileStore, hasty: FileStore, files: Files, held: BaseProcess
) -> None:
    config = files.config.read_bytes()
    for work in LOCKING.values():
        began = time.monotonic()
        with pytest.raises(Unavailable) as raised:
            await work(hasty)
        assert WAIT_S <= time.monotonic() - began < WAIT_S + SLACK_S
        assert f"pid {held.pid}" in str(raised.value)
    assert files.config.read_bytes() == config
    assert not files.inbox().exists()
    # What takes no lock is not held up.
    began = time.monotonic()
    assert await hasty.teams() == [TEAM]
    assert (await hasty.read(TEAM)).tasks == {}
    assert (await hasty.mailbox(TEAM, INBOX)).entries == ()
    assert time.monotonic() - began < WAIT_S


async def test_who_gave_up_waiting_can_come_again(
    tmp_path: Path, store: FileStore, hasty: FileStore
) -> None:
    body = holders.HoldsTheTeam(tmp_path)
    child = holders.start(body)
    holders.wait_for(body.inside)
    for _ in range(2):
        with pytest.raises(Unavailable):
            await LOCKING["commit"](hasty)
    body.go_on.touch()
    child.join(holders.DEADLINE_S)
    # The thread that still waited for the first lock has let go of it, or will at once.
    for number in range(20):
        await put(hasty, PutTask(task(str(100 + number))))
        await put(store, PutTask(task(str(200 + number))))
    assert len((await store.read(TEAM)).tasks) == 41


async def test_a_deadline_holds_when_the_lock_of_a_file_is_held_too(
    hasty: FileStore, files: Files
) -> None:
    foreign_lock(files, "ann.json")
    await put(hasty, PutTask(task("1")))
    for work in (LOCKING["append"], lambda store: put(store, Deliver(INBOX, message("m")))):
        began = time.monotonic()
        with pytest.raises(Unavailable):
            await work(hasty)
        assert time.monotonic() - began < WAIT_S + SLACK_S
    files.write(files.inbox(), [message("m").raw])
    with pytest.raises(Unavailable):
        await LOCKING["acknowledge"](hasty)
    assert len(await hasty.events(TEAM)) == 3


async def test_the_lock_of_a_killed_process_is_free_though_a_child_it_forked_lives(
    tmp_path: Path, hasty: FileStore
) -> None:
    body = holders.DiesWithAChildAlive(tmp_path)
    holders.run_until_killed(body)
    child = int(body.child.read_text())
    try:
        os.kill(child, 0)
        await put(hasty, PutTask(task("9")))
    finally:
        os.kill(child, signal.SIGKILL)


async def test_a_forked_child_has_no_part_in_its_parents_lock(
    tmp_path: Path, store: FileStore
) -> None:
    body = holders.ForksWhileItHolds(tmp_path)
    child = holders.start(body)
    child.join(holders.DEADLINE_S)
    assert child.exitcode == 0
    assert body.answer.read_text().splitlines() == ["child was kept out", "stranger was kept out"]
    assert list((await store.read(TEAM)).tasks) == ["78"]


@pytest.mark.parametrize("stores", [1, 2], ids=["one-store", "two-stores"])
async def test_threads_of_one_process_keep_each_other_out(
    tmp_path: Path, store: FileStore, stores: int
) -> None:
    await put(store, PutTask(task("1", metadata={"log": []})))
    all_stores = [store, FileStore(tmp_path, fsync=False)][:stores]
    inside = most = 0

    async def work(name: str, mine: FileStore) -> None:
        def decide(view: View) -> list[Change]:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            found = view.task("1")
            assert found is not None and found.metadata is not None
            time.sleep(0.002)
            inside -= 1
            return [PutTask(found.evolve(metadata={"log": [*found.metadata["log"], name]}))]

        for _ in range(5):
            await mine.commit(TEAM, decide, actor=LEAD, op="log")

    async with anyio.create_task_group() as group:
        for number in range(6):
            group.start_soon(work, f"worker{number}", all_stores[number % stores])
    assert most == 1
    found = (await store.read(TEAM)).tasks["1"].metadata
    assert found is not None and len(found["log"]) == 30
