"""A team restored out of its log is the team that lived, file by file and event by event."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bullpen.protocol.changes import Change, DeleteTask, Deliver, PutMember, PutTask
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Mark, Store, View
from bullpen.store.memory import MemoryStore
from bullpen.testing.restore_contract import boxes
from bullpen.testing.sample_records import assert_replay_is_live, config, member, message, put, task
from support.store.restored_teams import assert_equal, on_files

pytestmark = pytest.mark.no_loss

AGENTS = (LEAD, "ann", "bob", "cleo")


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
