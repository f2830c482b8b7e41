"""A team as both ends of the socket know it, kept up by what changed, and looking at it.

The host keeps one of a team and every client one of its own. They are equal as long as they
have one stamp and one number, so the host need only send what a client lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bullpen.protocol import names
from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    Deliver,
    Event,
    MarkMail,
    PutRequest,
    PutTask,
)
from bullpen.protocol.request import Request
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.task import Task
from bullpen.store.base import View
from bullpen.store.fold import Folded, apply, raw_of


def lasting(changes: Iterable[Change]) -> tuple[Change, ...]:
    """The changes that a view shows: all but mail."""
    return tuple(change for change in changes if not isinstance(change, Deliver | MarkMail))


class Known:
    """A team's records at one moment, parsed when they are first looked at."""

    def __init__(
        self,
        stamp: str,
        seq: int,
        team: TeamConfig,
        tasks: dict[str, dict[str, Any]],
        requests: dict[str, dict[str, Any]],
        next_task_id: int,
    ) -> None:
        self.stamp = stamp
        self.next_task_id = next_task_id
        members = {row.name: row.raw for row in team.roster}
        self._folded = Folded(seq, team.header, members, tasks, requests)
        self._team: TeamConfig | None = None
        self._tasks: dict[str, Task] = {}
        self._requests: dict[str, Request] = {}
        self._in_order = False

    @classmethod
    def seen(cls, view: View, *, stamp: str) -> Known:
        """What a view shows; its number is not known yet."""
        tasks = {key: task.raw for key, task in view.tasks().items()}
        requests = {key: request.raw for key, request in view.requests().items()}
        return cls(stamp, 0, view.team, tasks, requests, view.next_task_id)

    @classmethod
    def of(cls, raw: dict[str, Any]) -> Known:
        """What `raw` wrote."""
        return cls(
            raw["stamp"],
            raw["seq"],
            TeamConfig.parse(raw["team"]),
            raw["tasks"],
            raw["requests"],
            raw["next"],
        )

    def raw(self) -> dict[str, Any]:
        """All of it, as a JSON object."""
        return {
            "stamp": self.stamp,
            "seq": self.seq,
            "team": self.team.raw,
            "tasks": self._folded.tasks,
            "requests": self._folded.requests,
            "next": self.next_task_id,
        }

    @property
    def seq(self) -> int:
        """The number of the last event that is in it."""
        return self._folded.seq

    def number(self, seq: int) -> None:
        """Take note of which moment this is."""
        self._folded.seq = seq

    def advance(self, seq: int, changes: Sequence[Change]) -> None:
        """Take changes into account that lead to the event with this number."""
        apply(self._folded, Event(self.seq + 1, "", "", "", tuple(changes)), keep=raw_of)
        self._folded.seq = seq
        for change in changes:
            self._follow(change)

    def _follow(self, change: Change) -> None:
        match change:
            case PutTask(task):
                if task.id.isdecimal():
                    self.next_task_id = max(self.next_task_id, int(task.id) + 1)
                self._in_order = self._in_order and task.id in self._tasks
                self._tasks[task.id] = task
            case DeleteTask(task_id):
                self._tasks.pop(task_id, None)
            case PutRequest(request):
                self._requests[request.id] = request
            case _:
                self._team = None

    @property
    def team(self) -> TeamConfig:
        """The team and its members."""
        if self._team is None:
            rows = list(self._folded.members.values())
            self._team = TeamConfig.parse({**self._folded.team, "members": rows})
        return self._team

    def task(self, task_id: str) -> Task | None:
        """One task."""
        task = self._tasks.get(task_id)
        if task is None and task_id in self._folded.tasks:
            task = self._tasks[task_id] = Task.parse(self._folded.tasks[task_id])
            self._in_order = False
        return task

    def tasks(self) -> dict[str, Task]:
        """All tasks in id order."""
        if not self._in_order:
            ids = sorted(self._folded.tasks, key=names.task_order)
            known = self._tasks
            self._tasks = {
                key: known.get(key) or Task.parse(self._folded.tasks[key]) for key in ids
            }
            self._in_order = True
        return dict(self._tasks)

    def request(self, request_id: str) -> Request | None:
        """One request."""
        request = self._requests.get(request_id)
        if request is None and request_id in self._folded.requests:
            request = Request.parse(self._folded.requests[request_id])
            self._requests[request_id] = request
        return request

    def requests(self) -> dict[str, Request]:
        """All requests."""
        return {key: self._request(key) for key in self._folded.requests}

    def _request(self, request_id: str) -> Request:
        request = self.request(request_id)
        if request is None:
            raise KeyError(request_id)
        return request

    def agrees(self, view: View, reads: Reads) -> bool:
        """Whether a view shows the same, as far as it was looked at.

        A view that knows its number, and has the one of this, need not be looked at any further.
        But a later team of the same name is another one: no two are made alike, so the fields of
        the team itself are always compared, and the members for every decision.
        """
        team, folded = view.team, self._folded
        if team.header != folded.team:
            return False
        if getattr(view, "seq", None) == self.seq:
            return True
        if [row.raw for row in team.roster] != list(folded.members.values()):
            return False
        if reads.next_task_id and view.next_task_id != self.next_task_id:
            return False
        if reads.all_tasks and _raws(view.tasks()) != folded.tasks:
            return False
        if reads.all_requests and _raws(view.requests()) != folded.requests:
            return False
        return all(
            _raw(view.task(key)) == folded.tasks.get(key) for key in sorted(reads.tasks)
        ) and all(
            _raw(view.request(key)) == folded.requests.get(key) for key in sorted(reads.requests)
        )


def _raw(record: Task | Request | None) -> dict[str, Any] | None:
    return None if record is None else record.raw


def _raws(records: Mapping[str, Task] | Mapping[str, Request]) -> dict[str, dict[str, Any]]:
    return {key: record.raw for key, record in records.items()}


@dataclass(slots=True)
class Reads:
    """What a decision looked at, besides the team."""

    tasks: set[str] = field(default_factory=set)
    requests: set[str] = field(default_factory=set)
    all_tasks: bool = False
    all_requests: bool = False
    next_task_id: bool = False

    def raw(self) -> list[Any]:
        """As JSON."""
        return [
            sorted(self.tasks),
            sorted(self.requests),
            self.all_tasks,
            self.all_requests,
            self.next_task_id,
        ]

    @classmethod
    def of(cls, raw: Any) -> Reads:
        """What `raw` wrote. Raises ValueError."""
        tasks, requests, *rest = raw
        if not all(isinstance(key, str) for key in (*tasks, *requests)) or len(rest) != 3:
            raise ValueError("these are no reads")
        return cls(set(tasks), set(requests), *(each is True for each in rest))


class Look:
    """What a decide function sees of what is known. It remembers what it was asked for."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self.reads = Reads()

    @property
    def team(self) -> TeamConfig:
        """The team and its members."""
        return self._known.team

    def task(self, task_id: str) -> Task | None:
        """One task. One that cannot be read is not known here: the host finds it and refuses."""
        self.reads.tasks.add(task_id)
        return self._known.task(task_id)

    def tasks(self) -> Mapping[str, Task]:
        """All tasks that can be read."""
        self.reads.all_tasks = True
        return self._known.tasks()

    def request(self, request_id: str) -> Request | None:
        """One request."""
        self.reads.requests.add(request_id)
        return self._known.request(request_id)

    def requests(self) -> Mapping[str, Request]:
        """All requests."""
        self.reads.all_requests = True
        return self._known.requests()

    @property
    def next_task_id(self) -> int:
        """One more than any task id ever given."""
        self.reads.next_task_id = True
        return self._known.next_task_id
