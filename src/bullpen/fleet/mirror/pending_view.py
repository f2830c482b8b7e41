"""A view of a team with uncommitted changes on top: several rules, one commit."""

from __future__ import annotations

from collections.abc import Mapping

from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    Deliver,
    PutMember,
    PutNote,
    PutRequest,
    PutTask,
    PutTeam,
    RemoveMember,
)
from bullpen.protocol.record.note import Note
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import StoreLimits, View
from bullpen.store.record_checks import check_change, with_fields

_LIMITS = StoreLimits()
_COUNTED_DIGITS = 16


class PendingView(View):
    """The team as it will be. Each rule sees what the rules before it decided."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._team = view.team
        self._tasks: dict[str, Task | None] = {}
        self._requests: dict[str, Request] = {}
        self._notes: dict[str, Note] = {}
        self._changes: dict[object, Change] = {}
        self._highest = 0

    @property
    def changes(self) -> list[Change]:
        """Return all changes; for each record only the last one."""
        return list(self._changes.values())

    @property
    def team(self) -> TeamConfig:
        return self._team

    def task(self, task_id: str) -> Task | None:
        return self._tasks[task_id] if task_id in self._tasks else self._view.task(task_id)

    def tasks(self) -> Mapping[str, Task]:
        """Return all tasks by id, new ones last."""
        found: dict[str, Task | None] = {**self._view.tasks(), **self._tasks}
        return {task_id: task for task_id, task in found.items() if task is not None}

    def request(self, request_id: str) -> Request | None:
        return self._requests.get(request_id) or self._view.request(request_id)

    def requests(self) -> Mapping[str, Request]:
        return {**self._view.requests(), **self._requests}

    def note(self, name: str) -> Note | None:
        return self._notes.get(name) or self._view.note(name)

    def notes(self) -> Mapping[str, Note]:
        return {**self._view.notes(), **self._notes}

    @property
    def next_task_id(self) -> int:
        """Return the highest task id ever used, here too, plus one."""
        return max(self._view.next_task_id, self._highest + 1)

    def put(self, *changes: Change) -> None:
        """Make changes. Raises Invalid, without making any, if a store would not accept one."""
        for change in changes:
            check_change(change, _LIMITS)
        for change in changes:
            self._follow(change)

    def _follow(self, change: Change) -> None:
        match change:
            case PutTask(task):
                self._tasks[task.id] = task
                self._changes["task", task.id] = change
                # Longer ones are names: nobody counts up to them.
                if task.id.isascii() and task.id.isdecimal() and len(task.id) < _COUNTED_DIGITS:
                    self._highest = max(self._highest, int(task.id))
            case DeleteTask(task_id):
                self._tasks[task_id] = None
                self._changes["task", task_id] = change
            case PutMember(member):
                self._team = self._team.with_member(member)
                self._changes["member", member.name] = change
            case RemoveMember(name):
                self._team = self._team.without_member(name)
                self._changes["member", name] = change
            case PutTeam(fields):
                before = self._changes.get("team")
                earlier = before.fields if isinstance(before, PutTeam) else {}
                self._team = with_fields(self._team.raw, fields)
                self._changes["team"] = PutTeam({**earlier, **fields})
            case PutRequest(request):
                self._requests[request.id] = request
                self._changes["request", request.id] = change
            case PutNote(note):
                self._notes[note.name] = note
                self._changes["note", note.name] = change
            case Deliver(to, message):
                self._changes["mail", to, message.id] = change
            case _:
                raise AssertionError(change)
