"""Locks: ours among ourselves, ours against other programs', and those of the dead."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from bullpen.errors import Unavailable
from bullpen.protocol.changes import Deliver, PutMember, PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.files.store import FileStore
from bullpen.testing.sample_records import assert_replay_is_live, member, message, put, task
from support.store import holders
from support.store.locking_calls import LOCKING, WAIT_S, pauses_of
from support.store.peers import INBOX, TEAM, Files


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
    tmp_path: Path, store: FileStore, files: Files, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, PutTask(task("1")), Deliver(INBOX, message("first")))
    pauses = pauses_of(monkeypatch)
    for number in range(3):
        holders.run_until_killed(holders.DiesHoldingLocks(tmp_path, point, f"dying{number}"))
        assert files.locks() != []
        changes = (
            PutTask(task("1", owner="bob")),
            PutMember(member("bob")),
            Deliver(INBOX, message(f"next{number}")),
        )
        await put(store, *changes)
        assert files.locks() == []
    assert pauses == [], "it waited for a lock of the dead"
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


async def test_a_stopped_holder_of_the_team_is_named_at_the_deadline_and_never_robbed(
    store: FileStore, hasty: FileStore, files: Files, held: BaseProcess
) -> None:
    config = files.config.read_bytes()
    for work in LOCKING.values():
        with pytest.raises(Unavailable, match=f"was held for {WAIT_S:g} s by") as raised:
            await work(hasty)
        assert f"pid {held.pid}" in str(raised.value)
    assert files.config.read_bytes() == config
    assert not files.inbox().exists()
    # What takes no lock is not held up.
    assert await hasty.teams() == [TEAM]
    assert (await hasty.read(TEAM)).tasks == {}
    assert (await hasty.mailbox(TEAM, INBOX)).entries == ()


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
