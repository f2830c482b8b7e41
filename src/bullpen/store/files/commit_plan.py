"""One commit to files: decide, lock, check again, stage, log, put in place.

Everything that can fail for lack of space happens before the event is in the log. After that, only
names change, and the next process can repeat them from the log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bullpen.errors import Unreadable
from bullpen.protocol import names
from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    Deliver,
    MarkMail,
    PutMember,
    PutNote,
    PutRequest,
    PutTask,
    PutTeam,
    RemoveMember,
    RemoveRequest,
    UnknownChange,
)
from bullpen.protocol.message import Message
from bullpen.protocol.record import Wire
from bullpen.protocol.record.note import Note
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import View
from bullpen.store.events.concerns import record_of
from bullpen.store.events.fold import digest
from bullpen.store.files import notes
from bullpen.store.files.disk import read_bytes
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.records import Records, number_of
from bullpen.store.record_checks import with_fields


class FileView(View):
    """What a decide function sees. It remembers what it showed, to check that under the locks."""

    def __init__(
        self, records: Records, high: int, take_up: Callable[[Sequence[Note]], None]
    ) -> None:
        self._records, self._high, self._take_up = records, high, take_up
        self.shown: dict[tuple[str, str], Wire | None] = {}
        self._next_id: int | None = None
        self._tasks: dict[str, Task] | None = None

    @property
    def team(self) -> TeamConfig:
        config = self._records.config()
        self.shown["team", ""] = config
        return config

    def task(self, task_id: str) -> Task | None:
        if self._tasks is not None and task_id in self._tasks:
            task: Task | None = self._tasks[task_id]
        else:
            task = self._records.task(task_id)
        self.shown["task", task_id] = task
        return task

    def tasks(self) -> Mapping[str, Task]:
        """Return all readable tasks, read once as of one moment."""
        if self._tasks is None:
            self._tasks, _ = self._records.tasks()
        return self._tasks

    def request(self, request_id: str) -> Request | None:
        request = self._records.request(request_id)
        self.shown["request", request_id] = request
        return request

    def requests(self) -> Mapping[str, Request]:
        return self._records.requests()[0]

    def note(self, name: str) -> Note | None:
        """Return a note. What another program wrote into it is kept first, under its number."""
        note = self._records.note(name)
        if note is not None and note != self._records.noted(name):
            self._take_up([note])
        self.shown["note", name] = note
        return note

    def notes(self) -> Mapping[str, Note]:
        found = self._records.notes()
        if found.strange:
            self._take_up(found.strange)
        return found.notes

    @property
    def next_task_id(self) -> int:
        """Return the highest task id ever used, plus one.

        The head has the highest id. The folder is listed only if another program created a task
        since: then there is a file where the next one would go, or its high-water mark is higher.
        """
        if self._next_id is None:
            high = max(self._high, self._records.high_water())
            if high != self._high or not high or self._records.task_exists(high + 1):
                high = max(high, self._records.highest_task_id())
            self._next_id = high + 1
        return self._next_id

    def holds(self, written: Iterable[tuple[str, str]]) -> bool:
        """Return whether decide would see the same again.

        Checked are the records to be written and the tasks that it asked for by id, such as those
        that block another. What it chose from the list of all tasks is among them.
        """
        asked = [key for key in self.shown if key[0] == "task"]
        try:
            return all(self._still_true(*key) for key in dict.fromkeys([*written, *asked]))
        except Unreadable:
            return False  # Decide says what follows from that.

    def _still_true(self, kind: str, key: str) -> bool:
        """Return whether a record is still what decide saw, or, if not seen, may be written."""
        if kind == "task" and self._tasks is not None and key in self._tasks:
            now = self._records.task(key)
            return now == self._tasks[key] == self.shown.get((kind, key), now)
        if (kind, key) not in self.shown:
            fresh = kind == "task" and number_of(key) >= (self._next_id or 0)
            return not (fresh and self._next_id and self._records.task_exists(number_of(key)))
        return self._records.find(kind, key) == self.shown[kind, key]


@dataclass(slots=True)
class CommitPlan:
    """What the changes mean for files."""

    paths: TeamPaths
    changes: tuple[Change, ...]
    # The next content of each file; None removes it.
    files: dict[str, bytes | None] = field(default_factory=dict)
    # The digest of each written record before the change, by (kind, key); None if it did not exist.
    before: dict[tuple[str, str], str | None] = field(default_factory=dict)
    old: dict[tuple[str, str], dict[str, Any] | None] = field(default_factory=dict)
    # The current content of each file that other programs also write; None if it does not exist.
    expected: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    mail: dict[str, list[Message]] = field(default_factory=dict)
    high: int = 0

    @property
    def base(self) -> list[str | None]:
        """Return the digest of what each change replaced, so that it can be repeated safely."""
        return [self.before.get(record_of(change)) for change in self.changes]


def lock_files(paths: TeamPaths, changes: Sequence[Change]) -> list[str]:
    """Return the files to lock for these changes, in the order every program locks them.

    A new task needs no lock: the lock of the list keeps others from creating it.
    """
    touched = {record_of(change) for change in changes}
    tasks = sorted((key for kind, key in touched if kind == "task"), key=names.task_order)
    found = [paths.tasks_lock_file] if tasks else []
    found += [path for path in map(paths.task, tasks) if os.path.lexists(path)]
    if any(kind in ("member", "team") for kind, _ in touched):
        found.append(paths.config)
    agents = {change.to for change in changes if isinstance(change, Deliver)}
    return found + sorted({paths.inbox(agent) for agent in agents})


def make_plan(records: Records, changes: Sequence[Change], *, high: int) -> CommitPlan:
    """Return what these changes mean for files, given their current content."""
    paths = records.paths
    plan = CommitPlan(paths, tuple(changes), high=high)
    config: TeamConfig | None = None
    for change in changes:
        match change:
            case PutTask(task):
                _keep(plan, "task", task.id, records.task(task.id))
                plan.files[paths.task(task.id)] = task.dump()
                plan.high = max(plan.high, number_of(task.id))
            case DeleteTask(task_id):
                _keep(plan, "task", task_id, records.task(task_id))
                plan.files[paths.task(task_id)] = None
                plan.files[paths.high_water] = str(
                    max(records.highest_task_id(), plan.high)
                ).encode()
            case PutRequest(request):
                _keep(plan, "request", request.id, records.request(request.id))
                plan.files[paths.request(request.id)] = request.dump()
            case RemoveRequest(request_id):
                _keep(plan, "request", request_id, records.request(request_id))
                plan.files[paths.request(request_id)] = None
            case PutNote(note):
                _keep(plan, "note", note.name, records.note(note.name))
                plan.files |= notes.files_of(paths, note)
            case Deliver(to, message):
                # Names given by another program can share a mailbox.
                plan.mail.setdefault(names.inbox_stem(to), []).append(message)
            case PutMember() | RemoveMember() | PutTeam():
                if config is None:
                    config = records.config()
                    plan.expected[paths.config] = config.raw
                config = change_config(plan, config, change)
            case MarkMail() | UnknownChange():
                pass  # Only logged after it has happened.
    if config is not None:
        plan.files[paths.config] = config.dump()
    for (kind, key), old in plan.old.items():
        if kind == "task":
            plan.expected[paths.task(key)] = old
        elif kind == "note":
            plan.expected[paths.note(key)] = old
    return plan


def _keep(plan: CommitPlan, kind: str, key: str, record: Wire | None) -> None:
    if (kind, key) not in plan.before:
        plan.before[kind, key] = digest(record.raw) if record else None
        plan.old[kind, key] = record.raw if record else None


def change_config(
    plan: CommitPlan, config: TeamConfig, change: PutMember | RemoveMember | PutTeam
) -> TeamConfig:
    """Return the team with one change applied, and note in the plan what it replaces."""
    match change:
        case PutMember(member):
            _keep(plan, "member", member.name, config.member(member.name))
            return config.with_member(member)
        case RemoveMember(name):
            _keep(plan, "member", name, config.member(name))
            return config.without_member(name)
        case PutTeam(fields):
            plan.before.setdefault(("team", ""), digest(config.header))
            plan.old.setdefault(("team", ""), config.header)
            return with_fields(config.raw, fields)


def already_there(path: str, data: bytes | None) -> bool:
    """Return whether a file has exactly this content (None: whether it is gone)."""
    try:
        return read_bytes(path) == data
    except FileNotFoundError:
        return data is None
    except Unreadable:
        return False


def folders(paths: Sequence[str]) -> list[str]:
    """Return the folders of some files, each once."""
    return sorted({os.path.dirname(path) for path in paths})
