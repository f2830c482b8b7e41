"""Locks: ours among ourselves, ours against other programs', and those of the dead."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from bullpen.errors import Unavailable
from bullpen.protocol.changes import Change, Deliver, PutMember, PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.contract import View
from bullpen.store.files import locks
from bullpen.store.files.disk import Disk
from bullpen.store.files.locks import OUR_MODE
from bullpen.store.files.store import FileStore
from bullpen.testing.sample_records import assert_replay_is_live, member, message, put, task
from support.store.locking_calls import HANGS_S, LOCKING, WAIT_S, Work, pauses_of
from support.store.peers import INBOX, TEAM, Files, make_older

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
    hasty: FileStore, files: Files, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, before = foreign_lock(files, name), files.content()
    pauses = pauses_of(monkeypatch)
    with pytest.raises(Unavailable) as raised:
        await WRITES[name](hasty)
    assert len(pauses) > 2, "it looked again and again"
    assert str(lock) in str(raised.value)
    assert files.locks() == [lock]
    assert files.content() == before


@pytest.mark.parametrize("name", WRITES)
async def test_a_lock_that_another_program_lets_go_of_is_taken_soon(
    store: FileStore, files: Files, name: str
) -> None:
    lock = foreign_lock(files, name)
    # Whoever only looked again at its deadline would find that too late, and fail.
    async with anyio.create_task_group() as group:
        group.start_soon(WRITES[name], store)
        await anyio.sleep(0.05)
        lock.rmdir()
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
        old = lock.stat().st_mtime
        assert not locks.break_if_dead(str(lock), Disk())
        assert files.locks() == [lock]
        assert lock.stat().st_mtime > old, "it is the new one"
        lock.rmdir()


class Watched(Disk):
    """Calls back at every step."""

    def __init__(self, callback: Callable[[str, str], None]) -> None:
        super().__init__(fsync=False)
        self._callback = callback

    def step(self, what: str, path: str) -> None:
        self._callback(what, path)


async def test_a_broken_lock_stays_free_for_a_moment_before_we_make_our_own(
    tmp_path: Path, store: FileStore, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who found the same lock dead may be about to remove it: the removal must not hit ours."""
    lock = foreign_lock(files, "config.json", age_s=12)
    did: list[object] = pauses_of(monkeypatch)

    def note(what: str, path: str) -> None:
        if path.startswith(str(lock)):
            did.append(what)

    await WRITES["config.json"](FileStore(tmp_path, disk=Watched(note)))
    broken = did.index("rmdir")
    assert did[broken + 1] == locks._SETTLE_S, "it waits before it does anything else"


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


async def test_a_deadline_holds_when_the_lock_of_a_file_is_held_too(
    hasty: FileStore, files: Files
) -> None:
    foreign_lock(files, "ann.json")
    await put(hasty, PutTask(task("1")))
    for work in (LOCKING["append"], lambda store: put(store, Deliver(INBOX, message("m")))):
        with pytest.raises(Unavailable):
            await work(hasty)
    files.write(files.inbox(), [message("m").raw])
    with pytest.raises(Unavailable):
        await LOCKING["acknowledge"](hasty)
    assert len(await hasty.events(TEAM)) == 3


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


def test_a_lock_that_a_thread_holds_is_closed_only_after_it(tmp_path: Path) -> None:
    """Otherwise its descriptor would be another file's while it is locked and unlocked."""
    lock = locks.TeamLock(str(tmp_path / "head"), TEAM)
    closing = threading.Thread(target=lock.close)
    with lock.held(HANGS_S) as descriptor:
        closing.start()
        closing.join(WAIT_S)
        os.fstat(descriptor)
        assert closing.is_alive()
    closing.join(HANGS_S)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
