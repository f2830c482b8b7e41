"""A long log is kept in parts: compressed, verifiable, and read only when they are asked for."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bullpen.errors import BullpenError, Unreadable
from bullpen.protocol.changes import DeleteTask, PutTask
from bullpen.protocol.format_version import FORMAT
from bullpen.protocol.names import LEAD
from bullpen.store.events.checkpoint import BEGIN, Checkpoint
from bullpen.store.events.fold import fold
from bullpen.store.files.log import event_log
from bullpen.store.files.log.split import PartSize
from bullpen.store.files.store import FileStore
from bullpen.testing.faults import FailingDisk
from bullpen.testing.sample_records import (
    assert_replay_is_live,
    message,
    next_task_id,
    put,
    task,
)
from bullpen.view.story import Story, story_of
from chaos.files.killed_scenarios import SHORT, prepare, store_on

OWN = "teams/alpha/.bullpen"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[FileStore]:
    store = store_on(tmp_path, part=SHORT)
    await prepare(store)
    yield store
    await store.aclose()


async def work(store: FileStore, times: int) -> None:
    """Some history: one task is changed again and again, mail comes and is seen."""
    for number in range(times):
        await put(store, PutTask(task("1", subject=f"Try {number} " + "x" * 400)))
        await store.append("alpha", "ann", message(f"new{number}"), actor=LEAD)
        await store.acknowledge("alpha", "ann", [f"new{number}"], "seen", actor="ann")


def parts_of(home: Path) -> list[Path]:
    return sorted((home / OWN / "log").glob("*.jsonl.gz"))


def lines_of(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return [json.loads(line) for line in text.splitlines()]


async def test_the_whole_history_is_read_from_all_parts(store: FileStore, tmp_path: Path) -> None:
    await work(store, 20)
    assert len(parts_of(tmp_path)) >= 3
    seq = (await store.read("alpha")).seq
    events = await store.events("alpha")
    assert [event.seq for event in events] == list(range(1, seq + 1))
    assert events[0].op == "team.create" and BEGIN not in [event.op for event in events]
    for after in (0, 4, 5, 6, seq - 3, seq):
        assert await store.events("alpha", after=after) == events[after:]
        assert await store.events("alpha", after=after, limit=7) == events[after : after + 7]
    await assert_replay_is_live(store)
    assert await store.checkup("alpha", fix=False) == []


async def test_the_newest_events_are_those_of_the_whole_read_for_every_number(
    store: FileStore, tmp_path: Path
) -> None:
    await work(store, 12)
    (tmp_path / "tasks/alpha/2.json").write_bytes(task("2", subject="By another").dump())
    with (tmp_path / OWN / "events.jsonl").open("ab") as log:
        log.write(b'{"seq":99,"time":"2026-01-01T')
    whole = await store.events("alpha")
    assert whole[-1].observed and len(parts_of(tmp_path)) >= 2
    for number in range(len(whole) + 2):
        newest = whole[max(len(whole) - number, 0) :]
        new = store_on(tmp_path, part=SHORT)
        after = max(whole[-1].seq - number, 0)
        assert await new.events("alpha", after=after) == newest
        assert await new.events("alpha", after=after, limit=3) == newest[:3]
        await new.aclose()


async def test_of_a_long_log_only_the_newest_events_are_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_on(tmp_path)
    await prepare(store)
    await work(store, 100)
    last = (await store.events("alpha"))[-1].seq
    parsed: list[bytes] = []
    parse = event_log.parse_line

    def counted(line: bytes, path: str) -> dict[str, Any]:
        parsed.append(line)
        return parse(line, path)

    monkeypatch.setattr(event_log, "parse_line", counted)
    assert len(await store.events("alpha", after=last - 20)) == 20
    assert len(parsed) < 20 + 20 < last / 5
    await store.aclose()


async def test_the_newest_part_alone_gives_the_team(store: FileStore) -> None:
    await work(store, 20)
    recent = await store.recent_events("alpha")
    assert recent[0].op == BEGIN and len(recent) < 30
    whole, live = fold(await store.events("alpha")), fold(recent)
    assert (live.seq, live.team, live.tasks) == (whole.seq, whole.team, whole.tasks)
    assert (live.members, live.requests) == (whole.members, whole.requests)
    for agent, box in whole.mail.items():
        kept = [item for item in box.items() if item[1] != "archived"]
        assert [item for item in live.mail.get(agent, {}).items() if item[1] != "archived"] == kept
    assert list(live.members) == list(whole.members)


async def test_parts_are_a_chain_of_digests(store: FileStore, tmp_path: Path) -> None:
    await work(store, 20)
    files = parts_of(tmp_path)
    for path in files:
        assert path.name.split("-")[2] == hashlib.sha256(path.read_bytes()).hexdigest() + (
            ".jsonl.gz"
        )
    heads = [lines_of(path)[0] for path in [*files[1:], tmp_path / OWN / "events.jsonl"]]
    assert [head["previous"] for head in heads] == [path.name for path in files]
    assert {(head["op"], head["format"]) for head in heads} == {(BEGIN, FORMAT)}


async def test_a_new_process_goes_on_where_the_log_was_split(
    store: FileStore, tmp_path: Path
) -> None:
    await work(store, 20)
    (tmp_path / "tasks/alpha/2.json").write_bytes(task("2", subject="By another").dump())
    other = store_on(tmp_path, part=SHORT)
    await work(other, 10)
    await work(store, 10)
    assert [event.op for event in await other.events("alpha")].count("observed") == 1
    await assert_replay_is_live(store)
    await assert_replay_is_live(other)
    await other.aclose()


async def test_ids_of_deleted_tasks_are_not_used_again(store: FileStore) -> None:
    await put(store, PutTask(task("40")))
    await put(store, DeleteTask("40"))
    await work(store, 20)
    recent = await store.recent_events("alpha")
    assert recent[0].op == BEGIN and recent[0].seq > 13
    await store.restore("beta", recent)
    assert await next_task_id(store, "beta") == 41


async def test_a_log_that_begins_later_is_restored_and_goes_on(store: FileStore) -> None:
    await work(store, 20)
    recent = await store.recent_events("alpha")
    await store.restore("beta", recent)
    assert [event.seq for event in await store.events("beta")] == [event.seq for event in recent]
    assert await store.checkup("beta", fix=False) == []
    await put(store, PutTask(task("7")), team="beta")
    assert (await store.read("beta")).seq == recent[-1].seq + 1


async def test_a_log_with_much_state_and_little_history_stays_whole(tmp_path: Path) -> None:
    store = store_on(tmp_path, part=SHORT)
    await prepare(store)
    before = len(parts_of(tmp_path))
    for number in range(30):
        await put(store, PutTask(task(str(number + 10), subject="x" * 300)))
    assert len(parts_of(tmp_path)) == before
    await work(store, 40)
    assert len(parts_of(tmp_path)) > before
    await assert_replay_is_live(store)
    await store.aclose()


async def test_a_long_log_of_an_older_version_is_split_when_it_is_next_written(
    tmp_path: Path,
) -> None:
    store = store_on(tmp_path)
    await prepare(store)
    await work(store, 30)
    await store.aclose()
    assert parts_of(tmp_path) == []
    newer = store_on(tmp_path, part=PartSize(events=5, at_once=3))
    before = await newer.events("alpha")
    while len(await newer.recent_events("alpha")) > 20:
        await work(newer, 1)
    assert (await newer.events("alpha"))[: len(before)] == before
    await assert_replay_is_live(newer)
    await newer.aclose()


async def test_a_split_that_fails_loses_nothing(tmp_path: Path) -> None:
    store = store_on(tmp_path / "home")
    await prepare(store)
    await work(store, 10)
    await store.aclose()
    split = 0
    for number in range(1, 70):
        home = tmp_path / f"failing{number}"
        shutil.copytree(tmp_path / "home", home)
        failing = store_on(home, FailingDisk(number), part=SHORT)
        try:
            await put(failing, PutTask(task("50")))
        except BullpenError:
            continue
        finally:
            await failing.aclose()
        again = store_on(home, part=SHORT)
        assert "50" in (await again.read("alpha")).tasks
        split += bool(parts_of(home))
        await assert_replay_is_live(again)
        await again.aclose()
        shutil.rmtree(home)
    assert split


async def test_a_changed_part_is_found_and_never_read_as_history(
    store: FileStore, tmp_path: Path
) -> None:
    await work(store, 20)
    second = parts_of(tmp_path)[1]
    second.write_bytes(second.read_bytes()[:-20])
    with pytest.raises(Unreadable, match="damaged"):
        await store.events("alpha")
    (found,) = await store.checkup("alpha", fix=False)
    assert (found.kind, found.where) == ("damaged_part", str(second))
    assert (await store.checkup("alpha", fix=True))[0].fixed
    (missing,) = await store.checkup("alpha", fix=False)
    assert missing.kind == "missing_part" and "are missing" in missing.what
    events = await store.events("alpha")
    assert BEGIN in [event.op for event in events]
    assert fold(events).tasks == fold(await store.recent_events("alpha")).tasks


async def test_a_damaged_first_line_is_made_again_from_the_part_before(
    store: FileStore, tmp_path: Path
) -> None:
    await work(store, 20)
    before = fold(await store.recent_events("alpha"))
    path = tmp_path / OWN / "events.jsonl"
    path.write_bytes(b"x" + path.read_bytes()[1:])
    assert [each.kind for each in await store.checkup("alpha", fix=True)] == ["damaged_log"]
    assert fold(await store.recent_events("alpha")) == before
    assert await store.checkup("alpha", fix=False) == []
    await assert_replay_is_live(store)


async def test_a_lost_head_is_made_again(store: FileStore, tmp_path: Path) -> None:
    await work(store, 20)
    (tmp_path / OWN / "head").write_bytes(b"")
    await put(store, PutTask(task("8")))
    await assert_replay_is_live(store)
    assert await store.checkup("alpha", fix=False) == []


def test_what_a_newer_version_logged_is_part_of_the_state() -> None:
    change = {"put": "sprint", "sprint": {"id": "s1", "of": ["tomorrow"]}}
    state = Checkpoint()
    state.take({"seq": 1, "time": "t", "changes": [change, {"put": "task", "task": "x"}]})
    assert state.changes()[-2:] == [change, {"put": "task", "task": "x"}]


async def test_a_screen_of_a_long_log_shows_the_team_as_it_is(store: FileStore) -> None:
    await work(store, 20)
    whole, story = story_of(await store.events("alpha")), Story()
    recent = await store.recent_events("alpha")
    story.tell(recent)
    assert (story.seq, story.tasks, list(story.members)) == (
        whole.seq,
        whole.tasks,
        list(whole.members),
    )
    assert story.told[0].text == f"history up to event {recent[0].seq} is not shown here"
    unread = {name: whole.unread(name) for name in whole.members}
    assert {name: story.unread(name) for name in story.members} == unread
    assert {said.message.id for said in story.said} <= {said.message.id for said in whole.said}
