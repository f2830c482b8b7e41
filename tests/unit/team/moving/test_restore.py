"""A team restored out of its log is the team that lived, file by file and event by event."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from bullpen.errors import Conflict, Unavailable, Unreadable
from bullpen.protocol.changes import MarkMail, PutMember, PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.files.log.event_log import read_head
from bullpen.store.memory import MemoryStore
from bullpen.team.moving import fingerprint
from bullpen.team.moving.move import move
from bullpen.testing.restore_contract import boxes, live_through, texts
from bullpen.testing.sample_records import (
    assert_replay_is_live,
    config,
    member,
    message,
    next_task_id,
    put,
    task,
)
from support.store.restored_teams import assert_equal, on_files

pytestmark = pytest.mark.no_loss

GOLDEN = Path(__file__).parents[3] / "golden"
VERSIONS = ("2.1.177", "2.1.325")


def visible(home: Path, team: str) -> dict[str, Any]:
    """What other programs see of a team, but for inboxes with nothing in them."""
    roots = (home / "teams" / team, home / "tasks" / team)
    paths = [path for root in roots for path in root.rglob("*") if path.is_file()]
    found = {
        str(path.relative_to(home)).replace(team, "TEAM"): shown(path)
        for path in paths
        if ".bullpen" not in path.parts
    }
    return {path: value for path, value in found.items() if value != []}


def shown(path: Path) -> Any:
    if path.suffix == ".md":
        return path.read_text("utf-8")
    return json.loads(path.read_bytes() or b"null")


async def test_a_team_goes_from_files_to_memory_and_back_byte_for_byte(tmp_path: Path) -> None:
    first, memory, last = on_files(tmp_path / "1"), MemoryStore(), on_files(tmp_path / "2")
    await first.create("alpha", config(later={"x": [1.5, None]}), actor=LEAD)
    await live_through(first)
    await memory.restore("alpha", await first.events("alpha"))
    await last.restore("alpha", await memory.events("alpha"))
    await assert_equal(first, memory, "alpha")
    await assert_equal(first, last, "alpha")
    assert await boxes(last, "alpha") == await boxes(first, "alpha")
    await assert_replay_is_live(last)


async def test_other_programs_find_the_files_that_they_would_have_found(tmp_path: Path) -> None:
    first, last = on_files(tmp_path / "1"), on_files(tmp_path / "2")
    await first.create("alpha", config(), actor=LEAD)
    await live_through(first)
    await last.restore("alpha", await first.events("alpha"))
    assert visible(tmp_path / "2", "alpha") == visible(tmp_path / "1", "alpha")


async def test_the_head_knows_the_last_event_and_the_highest_task_id(tmp_path: Path) -> None:
    first, last = on_files(tmp_path / "1"), on_files(tmp_path / "2")
    await first.create("alpha", config(), actor=LEAD)
    await live_through(first)
    await last.restore("alpha", await first.events("alpha"))
    here, there = (read_head(str(tmp_path / n / "teams/alpha/.bullpen/head")) for n in ("1", "2"))
    assert here is not None
    assert there is not None
    assert (there.seq, there.high) == (here.seq, here.high)


async def test_the_config_has_its_fields_in_the_order_they_came(tmp_path: Path) -> None:
    first, last = on_files(tmp_path / "1"), on_files(tmp_path / "2")
    await first.create("alpha", config(description="old", later=1), actor=LEAD)
    await put(first, PutMember(member("cleo")), PutTask(task("1")))
    await last.restore("alpha", await first.events("alpha"))
    here, there = (tmp_path / n / "teams/alpha/config.json" for n in ("1", "2"))
    assert there.read_bytes() == here.read_bytes()


async def test_mail_that_two_programs_wrote_is_all_there(tmp_path: Path) -> None:
    """The log meets the other program's message later than the one that came after it."""
    source, last = on_files(tmp_path / "1"), on_files(tmp_path / "2")
    await source.create("alpha", config(), actor=LEAD)
    inbox = tmp_path / "1" / "teams/alpha/inboxes/ann.json"
    inbox.write_text('[{"from": "claude", "text": "theirs", "timestamp": "t", "read": false}]')
    await source.append("alpha", "ann", message("ours"), actor=LEAD)
    events = await source.events("alpha")
    await last.restore("alpha", events)
    await assert_equal(source, last, "alpha")
    found = (await last.mailbox("alpha", "ann")).entries
    assert [entry.message.text for entry in found] == ["Hello", "theirs"]


def golden_home(home: Path, version: str) -> str:
    """A home made of recorded files; the name of its team."""
    number = itertools.count()

    def unique(found: re.Match[bytes]) -> bytes:
        return found[1] + b"%d" % next(number)

    team = home / "teams" / "recorded"
    tasks = home / "tasks" / "recorded"
    (team / "inboxes").mkdir(parents=True)
    tasks.mkdir(parents=True)
    for path in sorted((GOLDEN / version).iterdir()):
        data = re.sub(rb'(?<!\\)"<(?:MS|PID)>"', b"1794696426856", path.read_bytes())
        # The recording gave one id and one time to all messages.
        data = re.sub(rb'("(?:msg_id|timestamp)": ")<\w+>', unique, data)
        if "-empty-" in path.name or "-torn-" in path.name:
            continue
        if path.name.startswith("config-"):
            (team / "config.json").write_bytes(data)
        elif path.name.startswith("inbox-"):
            (team / "inboxes" / path.name.removeprefix("inbox-")).write_bytes(data)
        elif path.name.startswith("task-"):
            (tasks / f"{json.loads(data)['id']}.json").write_bytes(data)
        elif path.name == "tasks.highwatermark":
            (tasks / ".highwatermark").write_bytes(data)
    return "recorded"


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_team_of_the_real_program_is_restored_whole(tmp_path: Path, version: str) -> None:
    team = golden_home(tmp_path / "1", version)
    source, memory, last = on_files(tmp_path / "1"), MemoryStore(), on_files(tmp_path / "2")
    events = await source.events(team)
    assert [event.op for event in events] == ["observed"]
    await memory.restore(team, events)
    await last.restore(team, await memory.events(team))
    for copy in (memory, last):
        ours, theirs = await source.events(team), await copy.events(team)
        assert texts(theirs) == texts(ours)
        here = await fingerprint.take(source, team, ours)
        assert here.messages > 20
        assert await fingerprint.take(copy, team, theirs) == here
    found, expected = visible(tmp_path / "2", team), visible(tmp_path / "1", team)
    # Which ids were given before is not in the log yet; see how moving brings it there.
    expected.pop("tasks/TEAM/.highwatermark", None)
    found.pop("tasks/TEAM/.lock", None)
    assert found == expected


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_team_of_the_real_program_is_moved_with_the_ids_it_gave(
    tmp_path: Path, version: str
) -> None:
    team = golden_home(tmp_path / "1", version)
    source, last = on_files(tmp_path / "1"), on_files(tmp_path / "2")
    expected, next_id = visible(tmp_path / "1", team), await next_task_id(source, team)
    assert next_id > 1
    await move(source, last, team, to="files:2", by=LEAD)
    assert await next_task_id(last, team) == next_id
    found = visible(tmp_path / "2", team)
    assert found.pop("tasks/TEAM/.lock") is None
    assert found == {**expected, "tasks/TEAM/.highwatermark": next_id - 1}
    assert visible(tmp_path / "1", team) == {}


# Damage


async def test_a_log_that_is_damaged_is_not_read_as_a_shorter_one(tmp_path: Path) -> None:
    source = on_files(tmp_path / "1")
    await source.create("alpha", config(), actor=LEAD)
    await live_through(source)
    log = tmp_path / "1" / "teams/alpha/.bullpen/events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:5], b"x" * (len(lines[5]) - 1) + b"\n", *lines[6:]]))
    with pytest.raises(Unreadable):
        await on_files(tmp_path / "1").events("alpha")


async def test_tasks_of_a_former_team_stay_where_they_are(tmp_path: Path) -> None:
    source, home = MemoryStore(), tmp_path / "2"
    await source.create("alpha", config(), actor=LEAD)
    (home / "tasks" / "alpha").mkdir(parents=True)
    (home / "tasks" / "alpha" / "1.json").write_bytes(b"{}")
    with pytest.raises(Conflict, match="earlier team"):
        await on_files(home).restore("alpha", await source.events("alpha"))
    assert (home / "tasks/alpha/1.json").read_bytes() == b"{}"
    assert await on_files(home).teams() == []


async def test_the_marks_of_a_list_without_tasks_do_not_count(tmp_path: Path) -> None:
    source, home = MemoryStore(), tmp_path / "2"
    await source.create("alpha", config(), actor=LEAD)
    await put(source, PutTask(task("1")))
    (home / "tasks" / "alpha").mkdir(parents=True)
    (home / "tasks" / "alpha" / ".highwatermark").write_bytes(b"70")
    (home / "tasks" / "alpha" / ".lock").write_bytes(b"")
    store = on_files(home)
    await store.restore("alpha", await source.events("alpha"))
    assert await next_task_id(store) == 2


async def test_a_home_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    source = MemoryStore()
    await source.create("alpha", config(), actor=LEAD)
    (tmp_path / "teams").write_bytes(b"no folder")
    with pytest.raises(Unavailable):
        await on_files(tmp_path).restore("alpha", await source.events("alpha"))


async def test_a_restored_team_knows_which_marks_are_its_own(tmp_path: Path) -> None:
    """What the log says was consumed is not consumed once more when somebody looks."""
    store = on_files(tmp_path)
    await store.create("alpha", config(), actor=LEAD)
    await live_through(store)
    await store.restore("beta", await store.events("alpha"))
    again = on_files(tmp_path)
    for _ in range(2):
        assert not any(event.observed for event in await again.events("beta"))
    marks = [c for e in await again.events("beta") for c in e.changes if isinstance(c, MarkMail)]
    assert {mark.state for mark in marks} == {"injected", "seen", "archived"}
