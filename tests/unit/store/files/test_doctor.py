"""Damage is found, named and mended; nothing is thrown away."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from bullpen.errors import Unreadable
from bullpen.protocol.changes import PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Finding
from bullpen.store.files.store import FileStore
from bullpen.testing.sample_records import assert_replay_is_live, message, task
from chaos.files.killed_scenarios import prepare, store_on


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[FileStore]:
    store = store_on(tmp_path)
    await prepare(store)
    yield store
    await store.aclose()


@pytest.fixture
def team(tmp_path: Path) -> Path:
    return tmp_path / "teams" / "alpha"


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    return tmp_path / "tasks" / "alpha"


def make_old(path: Path, seconds: float = 60) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


async def found_and_fixed(store: FileStore, kind: str) -> Finding:
    """Found without being touched, then mended, then gone; the log still tells the truth."""
    seen = [finding for finding in await store.checkup("alpha", fix=False) if finding.kind == kind]
    assert len(seen) == 1 and not seen[0].fixed and not seen[0].action
    fixed = [finding for finding in await store.checkup("alpha", fix=True) if finding.kind == kind]
    assert len(fixed) == 1 and fixed[0].fixed and fixed[0].action
    assert (fixed[0].where, fixed[0].what) == (seen[0].where, seen[0].what)
    assert await store.checkup("alpha", fix=False) == []
    await assert_replay_is_live(store)
    return fixed[0]


def quarantined(team: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((team / ".bullpen" / "quarantine").iterdir())]


async def test_a_healthy_team_has_no_findings(store: FileStore) -> None:
    assert await store.checkup("alpha", fix=False) == []
    assert await store.checkup("alpha", fix=True) == []


async def test_looking_changes_nothing(store: FileStore, tmp_path: Path, tasks: Path) -> None:
    (tasks / "1.json").write_text("broken", encoding="utf-8")
    make_old(tasks / "1.json")

    def everything() -> dict[Path, bytes]:
        files = (path for path in tmp_path.rglob("*") if path.is_file() and path.name != "head")
        return {path: path.read_bytes() for path in files}

    before = everything()
    assert await store.checkup("alpha", fix=False) != []
    assert everything() == before


BREAKS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "garbage": lambda data: b"\x00\xff garbage",
    "another type": lambda data: b"[3]",
}


@pytest.mark.parametrize("how", BREAKS)
async def test_an_unreadable_task_is_restored_from_the_log(
    store: FileStore, team: Path, tasks: Path, how: str
) -> None:
    path = tasks / "2.json"
    whole = path.read_bytes()
    broken = BREAKS[how](whole)
    path.write_bytes(broken)
    make_old(path)
    state = await store.read("alpha")
    assert "2" not in state.tasks and state.problems[0].where == str(path)
    finding = await found_and_fixed(store, "unreadable")
    assert finding.where == str(path) and "restored" in finding.action
    assert path.read_bytes() == whole
    assert broken in quarantined(team)


async def test_a_foreign_task_that_nobody_knows_moves_to_the_quarantine(
    store: FileStore, team: Path, tasks: Path
) -> None:
    path = tasks / "77.json"
    path.write_text("{", encoding="utf-8")
    make_old(path)
    finding = await found_and_fixed(store, "unreadable")
    assert "restored" not in finding.action
    assert not path.exists() and b"{" in quarantined(team)


@pytest.mark.parametrize("how", BREAKS)
async def test_an_unreadable_config_is_an_error_for_everybody_until_it_is_restored(
    store: FileStore, team: Path, how: str
) -> None:
    path = team / "config.json"
    whole = json.loads(path.read_bytes())
    path.write_bytes(BREAKS[how](path.read_bytes()))
    make_old(path)
    with pytest.raises(Unreadable, match=r"config\.json"):
        await store.read("alpha")
    with pytest.raises(Unreadable, match=r"config\.json"):
        await store.events("alpha")
    await found_and_fixed(store, "unreadable")
    assert json.loads(path.read_bytes()) == whole


@pytest.mark.parametrize("how", ["empty", "cut", "garbage"])
async def test_of_an_unreadable_inbox_no_unread_message_is_lost(
    store: FileStore, team: Path, how: str
) -> None:
    path = team / "inboxes" / "ann.json"
    broken = BREAKS[how](path.read_bytes())
    path.write_bytes(broken)
    make_old(path)
    with pytest.raises(Unreadable, match=r"ann\.json"):
        await store.mailbox("alpha", "ann")
    with pytest.raises(Unreadable, match=r"ann\.json"):
        await store.append("alpha", "ann", message("next"), actor=LEAD, fresh=True)
    await found_and_fixed(store, "unreadable")
    ids = [entry.id for entry in (await store.mailbox("alpha", "ann")).entries]
    assert {"old2", "old3", "old4", "old5"} <= set(ids)
    assert len(ids) == len(set(ids))
    assert broken in quarantined(team)


async def test_a_row_that_is_no_message_moves_to_the_quarantine(
    store: FileStore, team: Path
) -> None:
    path = team / "inboxes" / "ann.json"
    rows = json.loads(path.read_bytes())
    rows.insert(1, {"content": "no sender"})
    path.write_text(json.dumps(rows, indent=2), encoding="utf-8")
    box = await store.mailbox("alpha", "ann")
    assert len(box.entries) == 6 and "[1]" in box.problems[0].where
    await found_and_fixed(store, "bad_row")
    assert len((await store.mailbox("alpha", "ann")).entries) == 6
    assert any(b"no sender" in data for data in quarantined(team))


async def test_a_row_that_is_no_member_moves_to_the_quarantine(
    store: FileStore, team: Path
) -> None:
    path = team / "config.json"
    raw = json.loads(path.read_bytes())
    raw["members"].append({"color": "red"})
    path.write_text(json.dumps(raw, indent=2), encoding="utf-8")
    assert "members" in (await store.read("alpha")).problems[0].where
    await found_and_fixed(store, "bad_row")
    assert any(b'"red"' in data for data in quarantined(team))


async def test_a_lock_of_ours_without_a_holder_is_removed(store: FileStore, tasks: Path) -> None:
    (tasks / "1.json.lock").mkdir(mode=0o600)
    await found_and_fixed(store, "orphan_lock")
    assert not (tasks / "1.json.lock").exists()


async def test_a_foreign_lock_is_removed_when_it_is_stale_and_not_before(
    store: FileStore, team: Path
) -> None:
    lock = team / "config.json.lock"
    lock.mkdir()
    make_old(lock, 5)
    assert await store.checkup("alpha", fix=True) == []
    make_old(lock, 11)
    await found_and_fixed(store, "orphan_lock")


async def test_a_leftover_of_a_dead_writer_is_removed(store: FileStore, tasks: Path) -> None:
    (tasks / ".1.json.abc-1.bullpen-tmp").write_text("{}", encoding="utf-8")
    await found_and_fixed(store, "leftover")


async def test_a_log_line_without_an_end_is_cut_off(store: FileStore, team: Path) -> None:
    log = team / ".bullpen" / "events.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"seq": 99, "half')
    finding = await found_and_fixed(store, "half_done")
    assert "incomplete" in finding.action
    assert log.read_bytes() == whole


async def test_a_finished_line_that_makes_no_sense_is_moved_to_the_quarantine(
    store: FileStore, team: Path
) -> None:
    log = team / ".bullpen" / "events.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"seq": 99, "changes": [{"put": "moon"}]}\n')
    with pytest.raises(Unreadable, match=r"events\.jsonl"):
        await store.commit("alpha", lambda view: [PutTask(task("9"))], actor=LEAD, op="test")
    await found_and_fixed(store, "half_done")
    assert log.read_bytes() == whole
    assert any(b"moon" in data for data in quarantined(team))


async def test_a_damaged_log_line_is_replaced_and_the_numbers_have_no_hole(
    store: FileStore, team: Path
) -> None:
    log = team / ".bullpen" / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    lines[1] = b"x" * (len(lines[1]) - 1) + b"\n"
    log.write_bytes(b"".join(lines))
    seqs = len(lines)
    finding = await store.checkup("alpha", fix=True)
    assert [each.kind for each in finding] == ["damaged_log"]
    events = await store.events("alpha")
    assert [event.seq for event in events][:seqs] == list(range(1, seqs + 1))
    assert events[1].op == "damaged"
    await assert_replay_is_live(store)
    assert await store.checkup("alpha", fix=False) == []


async def test_a_lost_head_is_found_again_from_the_log(store: FileStore, team: Path) -> None:
    await store.aclose()
    (team / ".bullpen" / "head").unlink()
    before = await store.read("alpha")
    await store.commit("alpha", lambda view: [PutTask(task("9"))], actor=LEAD, op="test")
    after = await store.read("alpha")
    assert after.seq == before.seq + 1 and "9" in after.tasks
    await assert_replay_is_live(store)


async def test_a_lost_ledger_is_made_again_from_the_log(store: FileStore, team: Path) -> None:
    (team / ".bullpen" / "ledger.json").unlink(missing_ok=True)
    (team / ".bullpen" / "ledger.json").write_text("{}garbage", encoding="utf-8")
    await store.commit("alpha", lambda view: [PutTask(task("1"))], actor=LEAD, op="test")
    assert not any(event.observed for event in await store.events("alpha"))


async def test_what_deletion_and_creation_left_is_removed(store: FileStore, tmp_path: Path) -> None:
    gone = tmp_path / "teams" / ".beta.gone-x"
    half = tmp_path / "teams" / ".beta.new-x"
    for folder in (gone, half):
        (folder / "inboxes").mkdir(parents=True)
        make_old(folder, 100)
    assert len(await store.checkup(None, fix=False)) == 2
    assert all(finding.fixed for finding in await store.checkup(None, fix=True))
    assert not gone.exists() and not half.exists()
    assert await store.checkup(None, fix=False) == []
