"""The records of a team in a replay, parsed when first used. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from bullpen.protocol import names
from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    PutMember,
    PutNote,
    PutRequest,
    PutTask,
    PutTeam,
    RemoveMember,
    RemoveRequest,
)
from bullpen.protocol.record.note import Note
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig
from bullpen.store.events.fold import Folded


@dataclass(slots=True)
class TeamRecords:
    """A team as its events describe it. It is a `View` that decisions can be based on."""

    folded: Folded[dict[str, Any]] = field(default_factory=Folded)
    next_task_id: int = 1
    _team: TeamConfig | None = field(default=None, init=False)
    _tasks: dict[str, Task] = field(default_factory=dict, init=False)
    _requests: dict[str, Request] = field(default_factory=dict, init=False)
    _in_order: bool = field(default=False, init=False)
    _notes: dict[str, Note] = field(default_factory=dict, init=False)

    @property
    def seq(self) -> int:
        """Return the number of the last event in it."""
        return self.folded.seq

    @property
    def team(self) -> TeamConfig:
        """Return the team and its members."""
        if self._team is None:
            rows = list(self.folded.members.values())
            self._team = TeamConfig.parse({**self.folded.team, "members": rows})
        return self._team

    def task(self, task_id: str) -> Task | None:
        """Return one task."""
        task = self._tasks.get(task_id)
        if task is None and task_id in self.folded.tasks:
            task = self._tasks[task_id] = Task.parse(self.folded.tasks[task_id])
            self._in_order = False
        return task

    def tasks(self) -> dict[str, Task]:
        """Return all tasks in id order."""
        if not self._in_order:
            known = self._tasks
            self._tasks = {
                key: known.get(key) or Task.parse(self.folded.tasks[key])
                for key in sorted(self.folded.tasks, key=names.task_order)
            }
            self._in_order = True
        return dict(self._tasks)

    def request(self, request_id: str) -> Request | None:
        """Return one request."""
        if request_id in self.folded.requests and request_id not in self._requests:
            self._requests[request_id] = Request.parse(self.folded.requests[request_id])
        return self._requests.get(request_id)

    def requests(self) -> dict[str, Request]:
        """Return all requests."""
        return {key: found for key in self.folded.requests if (found := self.request(key))}

    def note(self, name: str) -> Note | None:
        """Return the last version of a note."""
        if name in self.folded.notes and name not in self._notes:
            self._notes[name] = Note.parse(self.folded.notes[name])
        return self._notes.get(name)

    def notes(self) -> dict[str, Note]:
        """Return the last versions of all notes."""
        return {key: found for key in self.folded.notes if (found := self.note(key))}

    def follow(self, changes: Iterable[Change]) -> None:
        """Keep what is parsed up to date with changes that were just applied."""
        for change in changes:
            match change:
                case PutTask(task):
                    if task.id.isdecimal():
                        self.next_task_id = max(self.next_task_id, int(task.id) + 1)
                    self._in_order = self._in_order and task.id in self._tasks
                    self._tasks[task.id] = task
                case DeleteTask(task_id):
                    if task_id.isdecimal():
                        self.next_task_id = max(self.next_task_id, int(task_id) + 1)
                    self._tasks.pop(task_id, None)
                case PutRequest(request):
                    self._requests[request.id] = request
                case RemoveRequest(request_id):
                    self._requests.pop(request_id, None)
                case PutNote(note):
                    self._notes[note.name] = note
                case PutMember() | RemoveMember() | PutTeam():
                    self._team = None
                case _:
                    pass
