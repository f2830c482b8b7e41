"""A home of a newer version: read, kept as it is, and not written if its major is newer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bullpen.errors import Refused, Unavailable
from bullpen.protocol.changes import PutTask, UnknownChange
from bullpen.protocol.format_version import FORMAT, is_newer, may_write
from bullpen.protocol.names import LEAD
from bullpen.protocol.presence import Presence
from bullpen.store.files.log.event_log import Head
from bullpen.store.files.store import FileStore
from bullpen.team.team import Team
from bullpen.testing.sample_records import message, task
from bullpen.view.task_state import task_state
from chaos.files.killed_scenarios import prepare, store_on

OWN = "teams/alpha/.bullpen"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[FileStore]:
    store = store_on(tmp_path)
    await prepare(store)
    yield store
    await store.aclose()


def head_of(home: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((home / OWN / "head").read_bytes()[:255])
    return found


def set_head(home: Path, **fields: Any) -> None:
    raw = {**head_of(home), **fields}
    with (home / OWN / "head").open("r+b") as file:
        file.write(json.dumps(raw, separators=(",", ":")).encode().ljust(255) + b"\n")


def append_line(home: Path, **event: Any) -> bytes:
    """A line as a newer version would append it, already carried out."""
    path = home / OWN / "events.jsonl"
    seq = json.loads(path.read_bytes().splitlines()[-1])["seq"] + 1
    raw = {"seq": seq, "time": "2030-01-01T00:00:00.000Z", "actor": LEAD, "op": "new", **event}
    line = json.dumps(raw, separators=(",", ":")).encode() + b"\n"
    path.write_bytes(path.read_bytes() + line)
    return line


def contents(home: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}


def carried_out(home: Path) -> None:
    path = home / OWN / "events.jsonl"
    last = json.loads(path.read_bytes().splitlines()[-1])
    set_head(home, seq=last["seq"], size=path.stat().st_size)


async def add_task(store: FileStore) -> None:
    await store.commit(
        "alpha", lambda view: [PutTask(task(str(view.next_task_id)))], actor=LEAD, op="task.add"
    )


def test_versions_are_compared_by_number() -> None:
    assert not is_newer("1.0") and not is_newer(FORMAT)
    assert is_newer("1.10") and may_write("1.10")
    assert is_newer("2.0") and not may_write("2.0")
    assert is_newer("x") and not may_write("x")


async def test_a_new_home_says_its_format_in_the_head_and_in_the_first_event(
    store: FileStore, tmp_path: Path
) -> None:
    assert head_of(tmp_path)["format"] == FORMAT
    first, second, *_ = (tmp_path / OWN / "events.jsonl").read_bytes().splitlines()
    assert json.loads(first)["format"] == FORMAT
    assert "format" not in json.loads(second)
    (tmp_path / OWN / "head").write_bytes(b"")
    await add_task(store)
    assert head_of(tmp_path)["format"] == FORMAT


async def test_a_home_without_a_format_stays_without_one(store: FileStore, tmp_path: Path) -> None:
    old = {key: value for key, value in head_of(tmp_path).items() if key != "format"}
    with (tmp_path / OWN / "head").open("r+b") as file:
        file.write(json.dumps(old, separators=(",", ":")).encode().ljust(255) + b"\n")
    await add_task(store)
    assert "format" not in head_of(tmp_path)
    assert await store.checkup("alpha", fix=False) == []


async def test_a_head_with_a_field_more_is_trusted_and_keeps_it(
    store: FileStore, tmp_path: Path
) -> None:
    set_head(tmp_path, epoch=3, format="1.99")
    await add_task(store)
    assert (head_of(tmp_path)["epoch"], head_of(tmp_path)["format"]) == (3, "1.99")
    assert await store.checkup("alpha", fix=True) == []
    assert (head_of(tmp_path)["epoch"], head_of(tmp_path)["format"]) == (3, "1.99")


def test_a_head_with_no_room_for_its_fields_is_never_written() -> None:
    with pytest.raises(Unavailable, match="no room"):
        Head(more={"epoch": "x" * 250}).encode()


async def test_a_new_kind_of_change_is_shown_and_kept_byte_for_byte(
    store: FileStore, tmp_path: Path
) -> None:
    change = {"put": "sprint", "sprint": {"id": "s1"}}
    line = append_line(tmp_path, done=True, changes=[change])
    carried_out(tmp_path)
    await add_task(store)
    await store.append("alpha", "ann", message("yo"), actor=LEAD)
    shown = [event.changes for event in await store.events("alpha") if event.op == "new"]
    assert shown == [(UnknownChange(change),)]
    assert await store.checkup("alpha", fix=True) == []
    assert line in (tmp_path / OWN / "events.jsonl").read_bytes()
    assert not (tmp_path / OWN / "quarantine").exists()


async def test_an_unfinished_commit_of_a_newer_version_waits_for_that_version(
    store: FileStore, tmp_path: Path
) -> None:
    line = append_line(tmp_path, changes=[{"put": "sprint", "sprint": {"id": "s1"}}])
    for _ in range(2):
        with pytest.raises(Unavailable, match="newer version of Bullpen did not finish event"):
            await add_task(store)
        (found,) = await store.checkup("alpha", fix=True)
        assert (found.kind, found.fixed) == ("half_done", False)
    assert (tmp_path / OWN / "events.jsonl").read_bytes().endswith(line)


async def test_a_task_of_a_status_of_tomorrow_is_shown_kept_and_not_changed(
    store: FileStore, tmp_path: Path
) -> None:
    path = tmp_path / "tasks/alpha/1.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "status": "review", "points": 5}))
    before = path.read_bytes()
    team = Team(store, "alpha")
    listed = {each.id: each for each in (await team.tasks.list()).tasks}
    assert (listed["1"].status, listed["1"].raw["status"]) == ("unknown", "review")
    assert task_state(listed["1"], ()) == "unknown"
    refusals = [
        team.tasks.claim("1", by="ann"),
        team.tasks.done("1", by=LEAD),
        team.tasks.release("1", by=LEAD),
        team.tasks.assign("1", "ann", by=LEAD),
        team.tasks.delete("1", by=LEAD),
    ]
    for refusal in refusals:
        with pytest.raises(Refused, match="'review'"):
            await refusal
    assert await store.checkup("alpha", fix=True) == []
    assert path.read_bytes() == before


async def test_what_looks_damaged_in_a_newer_home_is_not_repaired(
    store: FileStore, tmp_path: Path
) -> None:
    set_head(tmp_path, format="1.99")
    path = tmp_path / OWN / "requests/r1.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "kind": "merge"}))
    before = path.read_bytes()
    (found,) = await store.checkup("alpha", fix=True)
    assert not found.fixed and "upgrade" in found.what
    assert path.read_bytes() == before


async def test_nothing_is_written_to_a_home_of_a_newer_major(
    store: FileStore, tmp_path: Path
) -> None:
    set_head(tmp_path, format="2.0")
    before = contents(tmp_path)
    writes = [
        add_task(store),
        store.append("alpha", "ann", message("yo"), actor=LEAD),
        store.acknowledge("alpha", "ann", ["old5"], "seen", actor="ann"),
        store.delete("alpha", actor=LEAD),
        store.beat("alpha", Presence.new(agent="ann", since_ms=1, beat_ms=1)),
    ]
    for write in writes:
        with pytest.raises(Unavailable, match=r"format 2\.0.*Upgrade Bullpen"):
            await write
    (found,) = await store.checkup("alpha", fix=True)
    assert (found.kind, found.fixed) == ("newer_format", False)
    assert [event.seq for event in await store.events("alpha")] == list(range(1, 11))
    assert "1" in (await store.read("alpha")).tasks
    assert contents(tmp_path) == before
