"""A copy of a team that both ends of the socket keep up to date.

The host keeps one copy of a team, and so does every client. Two copies with the same stamp and
number are equal, so the host only sends what a client lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bullpen.protocol.changes import Change, Deliver, Event, MarkMail
from bullpen.protocol.record.note import Note
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import View
from bullpen.store.events.fold import Folded, apply, raw_of
from bullpen.store.events.records import TeamRecords


def lasting(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return the changes that a view shows: all but mail."""
    return tuple(change for change in changes if not isinstance(change, Deliver | MarkMail))


@dataclass(slots=True)
class Replica(TeamRecords):
    """A team's records at one moment."""

    stamp: str = ""

    @classmethod
    def seen(cls, view: View, *, stamp: str) -> Replica:
        """Return what a view shows; its number is not known yet."""
        folded = _folded(0, view.team, _raws(view.tasks()), _raws(view.requests()))
        folded.notes = _raws(view.notes())
        return cls(folded, view.next_task_id, stamp)

    @classmethod
    def of(cls, raw: dict[str, Any]) -> Replica:
        """Return what `raw` wrote."""
        team = TeamConfig.parse(raw["team"])
        folded = _folded(raw["seq"], team, raw["tasks"], raw["requests"])
        folded.notes = raw.get("notes", {})
        return cls(folded, raw["next"], raw["stamp"])

    def raw(self) -> dict[str, Any]:
        """Return all of it as a JSON object."""
        return {
            "stamp": self.stamp,
            "seq": self.seq,
            "team": self.team.raw,
            "tasks": self.folded.tasks,
            "requests": self.folded.requests,
            "notes": self.folded.notes,
            "next": self.next_task_id,
        }

    def advance(self, seq: int, changes: Sequence[Change]) -> None:
        """Apply changes that lead to the event with this number."""
        apply(self.folded, Event(self.seq + 1, "", "", "", tuple(changes)), keep=raw_of)
        self.folded.seq = seq
        self.follow(changes)

    def agrees(self, view: View, reads: Reads) -> bool:
        """Return whether a view shows the same, as far as it was read.

        If a view has the same number, it need not be read any further. But a later team with the
        same name is a different team: no two are created alike, so the fields of the team itself
        are always compared, and its members for every decision.
        """
        team, folded = view.team, self.folded
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
        if reads.all_notes and _raws(view.notes()) != folded.notes:
            return False
        return all(
            _raw(view.task(key)) == folded.tasks.get(key) for key in sorted(reads.tasks)
        ) and all(
            _raw(view.request(key)) == folded.requests.get(key) for key in sorted(reads.requests)
        )


def _folded(
    seq: int, team: TeamConfig, tasks: dict[str, Any], requests: dict[str, Any]
) -> Folded[dict[str, Any]]:
    members = {row.name: row.raw for row in team.roster}
    return Folded(seq, team.header, members, tasks, requests)


def _raw(record: Task | Request | None) -> dict[str, Any] | None:
    return None if record is None else record.raw


def _raws(
    records: Mapping[str, Task] | Mapping[str, Request] | Mapping[str, Note],
) -> dict[str, dict[str, Any]]:
    return {key: record.raw for key, record in records.items()}


@dataclass(slots=True)
class Reads:
    """What a decision read, besides the team."""

    tasks: set[str] = field(default_factory=set)
    requests: set[str] = field(default_factory=set)
    all_tasks: bool = False
    all_requests: bool = False
    next_task_id: bool = False
    # Notes are few: one that was read stands for all.
    all_notes: bool = False

    def raw(self) -> list[Any]:
        """Return it as JSON."""
        return [
            sorted(self.tasks),
            sorted(self.requests),
            self.all_tasks,
            self.all_requests,
            self.next_task_id,
            # Earlier versions know no notes.
            *([True] if self.all_notes else []),
        ]

    @classmethod
    def of(cls, raw: Any) -> Reads:
        """Return what `raw` wrote. Raises ValueError."""
        tasks, requests, *rest = raw
        if not all(isinstance(key, str) for key in (*tasks, *requests)) or len(rest) not in (3, 4):
            raise ValueError("not a valid list of reads")
        return cls(set(tasks), set(requests), *(each is True for each in rest))


class ReplicaView(View):
    """What a decide function sees of the copy. It remembers what was read."""

    def __init__(self, known: Replica) -> None:
        self._known = known
        self.reads = Reads()

    @property
    def team(self) -> TeamConfig:
        return self._known.team

    def task(self, task_id: str) -> Task | None:
        """Return one task. An unreadable one is not in the copy: the host finds it and refuses."""
        self.reads.tasks.add(task_id)
        return self._known.task(task_id)

    def tasks(self) -> Mapping[str, Task]:
        self.reads.all_tasks = True
        return self._known.tasks()

    def request(self, request_id: str) -> Request | None:
        self.reads.requests.add(request_id)
        return self._known.request(request_id)

    def requests(self) -> Mapping[str, Request]:
        self.reads.all_requests = True
        return self._known.requests()

    def note(self, name: str) -> Note | None:
        self.reads.all_notes = True
        return self._known.note(name)

    def notes(self) -> Mapping[str, Note]:
        self.reads.all_notes = True
        return self._known.notes()

    @property
    def next_task_id(self) -> int:
        self.reads.next_task_id = True
        return self._known.next_task_id
