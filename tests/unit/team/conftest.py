"""A view of a team for pure rules, and a team in memory for operations."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from bullpen.errors import Unreadable
from bullpen.protocol import names
from bullpen.protocol.changes import Change
from bullpen.protocol.names import LEAD
from bullpen.protocol.record.note import Note
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import Committed, Decide, View
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams

START_MS = 1_794_696_431_000


@dataclass
class Board:
    """A view made of records. It counts how often all tasks were asked for."""

    team: TeamConfig
    records: dict[str, Task]
    unreadable: frozenset[str] = frozenset()
    next_task_id: int = 100
    questions: dict[str, Request] = field(default_factory=dict)
    all_asked: int = 0
    written: dict[str, Note] = field(default_factory=dict)

    def task(self, task_id: str) -> Task | None:
        names.check_task_id(task_id)
        if task_id in self.unreadable:
            raise Unreadable(f"tasks/crew/{task_id}.json", "it is not JSON")
        return self.records.get(task_id)

    def tasks(self) -> Mapping[str, Task]:
        self.all_asked += 1
        return self.records

    def request(self, request_id: str) -> Request | None:
        return self.questions.get(request_id)

    def requests(self) -> Mapping[str, Request]:
        return self.questions

    def note(self, name: str) -> Note | None:
        return self.written.get(name)

    def notes(self) -> Mapping[str, Note]:
        return self.written


MakeTask = Callable[..., Task]
MakeBoard = Callable[..., Board]


@pytest.fixture
def make_task() -> MakeTask:
    """A task as any program could have written it."""

    def make(task_id: str, **fields: Any) -> Task:
        return Task.new(
            **{"id": task_id, "subject": f"Task {task_id}", "description": "", **fields}
        )

    return make


@pytest.fixture
def make_board() -> MakeBoard:
    """A view of the team `crew` with a lead, alice and bob."""

    def make(*tasks: Task, members: Sequence[str] = (LEAD, "alice", "bob"), **fields: Any) -> Board:
        rows = [{"name": name, "agentId": f"{name}@crew"} for name in members]
        team = TeamConfig.parse({"name": "crew", "members": rows})
        return Board(team, {task.id: task for task in tasks}, **fields)

    return make


@dataclass
class Ticker:
    """A clock that only a test moves."""

    ms: int = START_MS

    def __call__(self) -> int:
        return self.ms


class RepeatingStore(MemoryStore):
    """A store that runs every decision twice, as a store may that somebody else wrote to."""

    async def commit(self, team: str, decide: Decide, *, actor: str, op: str) -> Committed:
        def twice(view: View) -> Sequence[Change]:
            decide(view)
            return decide(view)

        return await super().commit(team, twice, actor=actor, op=op)


class StaleStore(MemoryStore):
    """A store that lets the next decision see another view first, then the team as it is."""

    stale: View | None = None

    async def commit(self, team: str, decide: Decide, *, actor: str, op: str) -> Committed:
        stale, self.stale = self.stale, None

        def again(view: View) -> Sequence[Change]:
            if stale is not None:
                decide(stale)
            return decide(view)

        return await super().commit(team, again, actor=actor, op=op)


@pytest.fixture
def stale_store() -> StaleStore:
    return StaleStore()


@pytest.fixture
def ticker() -> Ticker:
    return Ticker()


@pytest.fixture
def store(ticker: Ticker) -> MemoryStore:
    return RepeatingStore(clock=ticker)


@pytest.fixture
def teams(store: MemoryStore, ticker: Ticker) -> Teams:
    numbers = itertools.count(1)
    return Teams(store, clock=ticker, new_id=lambda: f"id-{next(numbers):08}")


@pytest.fixture
async def team(teams: Teams) -> Team:
    """The team `crew` with a lead, alice and bob."""
    await teams.create("crew", cwd="/project")
    team = teams.open("crew")
    await team.roster.join("alice", by=LEAD)
    await team.roster.join("bob", by=LEAD)
    return team
