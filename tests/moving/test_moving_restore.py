"""A team restored out of its log is the team that lived, file by file and event by event."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bullpen.errors import Conflict, Unavailable, Unreadable
from bullpen.protocol.changes import Change, DeleteTask, Deliver, MarkMail, PutMember, PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.base import Mark, Store, StoreLimits, View
from bullpen.store.files.log import read_head
from bullpen.store.files.store import FileStore
from bullpen.store.memory import MemoryStore
from bullpen.team import fingerprint
from bullpen.team.moving import move
from bullpen.testing.records import (
    assert_replay_is_live,
    config,
    member,
    message,
    next_task_id,
    put,
    task,
)
from bullpen.testing.restore_contract import boxes, live_through, texts

GOLDEN = Path(__file__).parents[1] / "golden"
VERSIONS = ("2.1.177", "2.1.325")
LIMITS = StoreLimits(seen_kept=4)
AGENTS = (LEAD, "ann", "bob", "cleo")


def on_files(home: Path) -> FileStore:
    return FileStore(home, clock=lambda: 1_700_000_000_000, limits=LIMITS, fsync=False)


def visible(home: Path, team: str) -> dict[str, Any]:
    """What other programs see of a team, but for inboxes with nothing in them."""
    roots = (home / "teams" / team, home / "tasks" / team)
    paths = [path for root in roots for path in root.rglob("*") if path.is_file()]
    found = {
        str(path.relative_to(home)).replace(team, "TEAM"): json.loads(path.read_bytes() or b"null")
        for path in paths
        if ".bullpen" not in path.parts
    }
    return {path: value for path, value in found.items() if value != []}


async def assert_equal(here: Store, there: Store, team: str) -> None:
    """Both stores show the same of a team."""
    ours, theirs = await here.events(team), await there.events(team)
    assert texts(theirs) == texts(ours)
    source = await fingerprint.take(here, team, ours)
    copy = await fingerprint.take(there, team, theirs)
    assert fingerprint.difference(source, copy) is None
    assert source == copy
    assert await next_task_id(there, team) == await next_task_id(here, team)


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


# Other programs


class Foreign:
    """A program that writes the files of a team without asking."""

    def __init__(self, home: Path, dice: random.Random) -> None:
        self._team, self._tasks = home / "teams" / "alpha", home / "tasks" / "alpha"
        self._dice = dice
        self._count = 0

    def act(self) -> None:
        self._dice.choice((self._write, self._write, self._consume, self._task, self._config))()

    def _write(self) -> None:
        self._count += 1
        path = self._inbox()
        row = {"from": "claude", "text": f"{self._count} of mine", "timestamp": "t", "read": False}
        self._edit(path, lambda rows: [*rows, row])

    def _consume(self) -> None:
        self._edit(self._inbox(), lambda rows: rows[1:])

    def _task(self) -> None:
        path = self._tasks / f"{self._dice.randrange(1, 9)}.json"
        if path.exists():
            self._edit(path, lambda raw: {**raw, "subject": f"mine {self._dice.random()}"})

    def _config(self) -> None:
        path = self._team / "config.json"
        self._edit(path, lambda raw: {**raw, "theirs": self._dice.randrange(9)})

    def _inbox(self) -> Path:
        return self._team / "inboxes" / f"{self._dice.choice(('ann', 'bob'))}.json"

    def _edit(self, path: Path, change: Callable[[Any], Any]) -> None:
        raw = json.loads(path.read_bytes()) if path.exists() else []
        path.write_text(json.dumps(change(raw), indent=2), encoding="utf-8")


async def random_step(store: Store, dice: random.Random, number: int) -> None:
    agent = dice.choice(AGENTS)

    def add(view: View) -> Sequence[Change]:
        return [PutTask(task(str(view.next_task_id), subject=f"s{number}"))]

    def change(view: View) -> Sequence[Change]:
        ids = list(view.tasks())
        if not ids:
            return ()
        found = view.tasks()[dice.choice(ids)]
        if dice.random() < 0.2:
            return [DeleteTask(found.id), Deliver(agent, message(f"d{number}"))]
        return [PutTask(found.evolve(owner=agent))]

    kind = dice.random()
    if kind < 0.4:
        sent = message(f"m{number}", text=f"Text {number} \U0001f600", later=dice.random())
        await store.append("alpha", agent, sent, actor=LEAD)
    elif kind < 0.6:
        entries = (await store.mailbox("alpha", agent)).entries
        ids = [entry.id for entry in entries if dice.random() < 0.4]
        state: Mark = "seen" if dice.random() < 0.7 else "injected"
        await store.acknowledge("alpha", agent, ids, state, actor=agent)
    elif kind < 0.65:
        await put(store, PutMember(member(agent, later=number)))
    else:
        await store.commit("alpha", add if kind < 0.8 else change, actor=agent, op="test")


@pytest.mark.parametrize("foreign", [False, True], ids=["alone", "with another program"])
async def test_a_random_history_of_2000_events_is_equal_everywhere(
    tmp_path: Path, foreign: bool
) -> None:
    dice = random.Random(6)
    source, memory, last = on_files(tmp_path / "1"), MemoryStore(), on_files(tmp_path / "2")
    await source.create("alpha", config(), actor=LEAD)
    other = Foreign(tmp_path / "1", dice)
    for number in itertools.count():
        await random_step(source, dice, number)
        if number % 40 == 0:
            if foreign:
                other.act()
            if await source.events("alpha", after=1_999, limit=1):
                break
    events = await source.events("alpha")
    assert any(event.observed for event in events) == foreign
    await memory.restore("alpha", events)
    await last.restore("alpha", await memory.events("alpha"))
    await assert_equal(source, memory, "alpha")
    await assert_equal(source, last, "alpha")
    if not foreign:
        assert await boxes(last, "alpha") == await boxes(source, "alpha")
    await assert_replay_is_live(last)


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
    with pytest.raises(Conflict, match="former team"):
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
