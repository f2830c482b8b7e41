"""A team as its log describes it, ready for decisions; and the snapshot of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bullpen.protocol import names
from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    Deliver,
    Event,
    MarkMail,
    PutMember,
    PutRequest,
    PutTask,
    PutTeam,
    RemoveMember,
)
from bullpen.protocol.message import DeliveryState, Message
from bullpen.protocol.request import Request
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.task import Task
from bullpen.store.base import TeamState
from bullpen.store.concerns import concern_of
from bullpen.store.fold import Folded, apply, raw_of

SNAPSHOT_VERSION = 1


class Part(NamedTuple):
    """A part of the history: the number of its first event, and the message that holds it."""

    first: int
    seq: int


@dataclass(slots=True)
class Kept:
    """What the log says so far. It is the `View` that decisions are made on.

    Of mail it has the ids and states that are not archived; `numbers` says which event brought
    each, and so where its text is. `bodies` are those texts that this process has read already.
    """

    folded: Folded[dict[str, Any]] = field(default_factory=Folded)
    numbers: dict[str, dict[str, int]] = field(default_factory=dict)
    archived: dict[str, int] = field(default_factory=dict)
    archived_up_to: dict[str, int] = field(default_factory=dict)
    highest_task_id: int = 0
    parts: list[Part] = field(default_factory=list)
    gone: bool = False
    bodies: dict[str, dict[str, Message]] = field(default_factory=dict)
    touched: dict[str | None, int] = field(default_factory=dict)
    _team: TeamConfig | None = None
    _tasks: dict[str, Task] | None = None
    _requests: dict[str, Request] | None = None

    @property
    def seq(self) -> int:
        """The number of the last event."""
        return self.folded.seq

    # The view

    @property
    def team(self) -> TeamConfig:
        """The team and its members."""
        if self._team is None:
            rows = list(self.folded.members.values())
            self._team = TeamConfig.parse({**self.folded.team, "members": rows})
        return self._team

    def task(self, task_id: str) -> Task | None:
        """One task."""
        return self._in_order().get(task_id)

    def tasks(self) -> dict[str, Task]:
        """All tasks, in id order."""
        return dict(self._in_order())

    def _in_order(self) -> dict[str, Task]:
        if self._tasks is None:
            tasks = [Task.parse(raw) for raw in self.folded.tasks.values()]
            tasks.sort(key=lambda task: names.task_order(task.id))
            self._tasks = {task.id: task for task in tasks}
        return self._tasks

    def request(self, request_id: str) -> Request | None:
        """One request."""
        return self.requests().get(request_id)

    def requests(self) -> dict[str, Request]:
        """All requests."""
        if self._requests is None:
            found = self.folded.requests.items()
            self._requests = {key: Request.parse(raw) for key, raw in found}
        return dict(self._requests)

    @property
    def next_task_id(self) -> int:
        """One more than any task id ever given."""
        return self.highest_task_id + 1

    def state(self) -> TeamState:
        """All of it but the mail."""
        return TeamState(self.team, self.tasks(), self.requests(), self.seq)

    # Mail

    def box(self, agent: str) -> dict[str, DeliveryState]:
        """The states of an agent's mail that is not archived, oldest first."""
        return self.folded.mail.get(agent, {})

    def concerns(self, agent: str | None) -> tuple[int, ...]:
        """The last events that concern an agent; None stands for who wants to know of all."""
        if agent is None:
            return (self.seq,)
        return (self.touched.get(None, 0), self.touched.get(agent, 0))

    # Going on

    def apply(self, event: Event) -> None:
        """Take the next event into account. Raises ValueError if it is not the next."""
        apply(self.folded, event, keep=raw_of)
        for change in event.changes:
            self._follow(change, event.seq)
            self.touched[concern_of(change)] = event.seq

    def _follow(self, change: Change, number: int) -> None:
        match change:
            case PutTask(task):
                if task.id.isdecimal():
                    self.highest_task_id = max(self.highest_task_id, int(task.id))
                if self._tasks is not None and task.id in self._tasks:
                    self._tasks[task.id] = task
                else:
                    self._tasks = None
            case Deliver(to, message):
                if self.numbers.setdefault(to, {}).setdefault(message.id, number) == number:
                    self.bodies.setdefault(to, {})[message.id] = message
            case MarkMail(agent, ids, state):
                self._mark(agent, ids, state)
            case DeleteTask():
                self._tasks = None
            case PutRequest():
                self._requests = None
            case PutMember() | RemoveMember() | PutTeam():
                self._team = None

    def _mark(self, agent: str, ids: Sequence[str], state: DeliveryState) -> None:
        bodies, numbers = self.bodies.get(agent, {}), self.numbers.get(agent, {})
        for key in ids:
            if state == "seen" and key in bodies:
                bodies[key] = bodies[key].evolve(read=True)
            elif state in ("archived", "consumed"):
                bodies.pop(key, None)
                number = numbers.pop(key, 0)
                if state == "archived" and key in self.box(agent):
                    del self.folded.mail[agent][key]
                    self.archived[agent] = self.archived.get(agent, 0) + 1
                    last = self.archived_up_to.get(agent, 0)
                    self.archived_up_to[agent] = max(last, number)

    # Snapshots

    def snapshot(self) -> dict[str, Any]:
        """All of it as a JSON object, but for the texts of messages."""
        return {
            "v": SNAPSHOT_VERSION,
            "seq": self.seq,
            "team": self.folded.team,
            "members": list(self.folded.members.values()),
            "tasks": self.folded.tasks,
            "requests": self.folded.requests,
            "mail": {
                agent: [[key, state, self.numbers[agent][key]] for key, state in box.items()]
                for agent, box in self.folded.mail.items()
            },
            "archived": {
                agent: [count, self.archived_up_to[agent]] for agent, count in self.archived.items()
            },
            "highestTaskId": self.highest_task_id,
            "parts": [[part.first, part.seq] for part in self.parts],
        }

    @classmethod
    def of_snapshot(cls, raw: dict[str, Any]) -> Kept:
        """What a snapshot describes.

        Raises:
            ValueError: it is none, or of a form that this version does not know.
        """
        try:
            if raw["v"] != SNAPSHOT_VERSION:
                raise ValueError(f"a snapshot of version {raw['v']!r}")
            kept = cls(
                archived={agent: int(row[0]) for agent, row in raw["archived"].items()},
                archived_up_to={agent: int(row[1]) for agent, row in raw["archived"].items()},
                highest_task_id=int(raw["highestTaskId"]),
                parts=[Part(int(first), int(seq)) for first, seq in raw["parts"]],
            )
            kept.folded = Folded(
                seq=int(raw["seq"]),
                team=dict(raw["team"]),
                members={row["name"]: row for row in raw["members"]},
                tasks=dict(raw["tasks"]),
                requests=dict(raw["requests"]),
                mail={
                    agent: {key: state for key, state, _ in box}
                    for agent, box in raw["mail"].items()
                },
            )
            kept.numbers = {
                agent: {key: number for key, _, number in box} for agent, box in raw["mail"].items()
            }
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise ValueError(f"not a snapshot: {error!r}") from None
        # What happened up to here is not known in detail: it may concern anybody.
        kept.touched[None] = kept.seq
        return kept
