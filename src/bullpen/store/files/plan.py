"""One commit on files: decide, lock, look again, stage, log, put in place.

Everything that can fail for want of space happens before the event is in the log. After that
only names change, and whoever comes next can repeat it from the log.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bullpen.errors import Unreadable
from bullpen.protocol import jsontext, names
from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    Deliver,
    MarkMail,
    PutMember,
    PutRequest,
    PutTask,
    PutTeam,
    RemoveMember,
)
from bullpen.protocol.message import Message
from bullpen.protocol.request import Request
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.task import Task
from bullpen.protocol.wire import Wire
from bullpen.store.checks import with_fields
from bullpen.store.files.disk import read_bytes
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.records import Records, number_of
from bullpen.store.fold import digest


class FileView:
    """What a decide function sees. It remembers what it showed, to look again under the locks."""

    def __init__(self, records: Records, high: int) -> None:
        self._records, self._high = records, high
        self.shown: dict[tuple[str, str], Wire | None] = {}
        self._next_id: int | None = None
        self._tasks: dict[str, Task] | None = None

    @property
    def team(self) -> TeamConfig:
        """The team and its members."""
        config = self._records.config()
        self.shown["team", ""] = config
        return config

    def task(self, task_id: str) -> Task | None:
        """One task."""
        if self._tasks is not None and task_id in self._tasks:
            return self._tasks[task_id]
        task = self._records.task(task_id)
        self.shown["task", task_id] = task
        return task

    def tasks(self) -> Mapping[str, Task]:
        """All tasks that can be read; looked at once, as one moment."""
        if self._tasks is None:
            self._tasks, _ = self._records.tasks()
        return self._tasks

    def request(self, request_id: str) -> Request | None:
        """One request."""
        request = self._records.request(request_id)
        self.shown["request", request_id] = request
        return request

    def requests(self) -> Mapping[str, Request]:
        """All requests."""
        return self._records.requests()[0]

    @property
    def next_task_id(self) -> int:
        """One more than any task id ever given.

        The head knows the highest id. Only if another program made a task since, which shows as
        a file where ours would go or in its high-water mark, the folder is listed.
        """
        if self._next_id is None:
            high = max(self._high, self._records.high_water())
            if high != self._high or not high or self._records.task_exists(high + 1):
                high = max(high, self._records.highest_task_id())
            self._next_id = high + 1
        return self._next_id

    def still_true(self, kind: str, key: str) -> bool:
        """Whether a record is still what decide saw (or, unseen, may be written at all)."""
        if kind == "task" and self._tasks is not None and key in self._tasks:
            now = self._records.task(key)
            return now == self._tasks[key] == self.shown.get((kind, key), now)
        if (kind, key) not in self.shown:
            fresh = kind == "task" and number_of(key) >= (self._next_id or 0)
            return not (fresh and self._next_id and self._records.task_exists(number_of(key)))
        before = self.shown[kind, key]
        match kind:
            case "task":
                return self._records.task(key) == before
            case "request":
                return self._records.request(key) == before
            case _:
                return self._records.config() == before


@dataclass(slots=True)
class Plan:
    """What the changes mean for files."""

    paths: TeamPaths
    changes: tuple[Change, ...]
    # Per file its next content; None removes it.
    files: dict[str, bytes | None] = field(default_factory=dict)
    # Per record that is written its digest before, by (kind, key); None if it was not there.
    before: dict[tuple[str, str], str | None] = field(default_factory=dict)
    old: dict[tuple[str, str], dict[str, Any] | None] = field(default_factory=dict)
    # Per file that other programs write too what it holds now; None if it is not there.
    expected: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    mail: dict[str, list[Message]] = field(default_factory=dict)
    high: int = 0

    @property
    def base(self) -> list[str | None]:
        """For every change the digest of what it replaced, so that it can be repeated safely."""
        return [self.before.get(_record_of(change)) for change in self.changes]


def _record_of(change: Change) -> tuple[str, str]:
    match change:
        case PutTask(task):
            return ("task", task.id)
        case DeleteTask(task_id):
            return ("task", task_id)
        case PutMember(member):
            return ("member", member.name)
        case RemoveMember(name):
            return ("member", name)
        case PutRequest(request):
            return ("request", request.id)
        case PutTeam():
            return ("team", "")
        case Deliver(to, message):
            return ("message", f"{to}/{message.id}")
        case MarkMail(agent, ids):
            return ("mail", f"{agent}/{ids}")


def lock_files(paths: TeamPaths, changes: Sequence[Change]) -> list[str]:
    """The files whose locks these changes need, in the order every program takes them.

    A task that is not there yet needs none of its own: the lock of the list keeps others from
    making it.
    """
    touched = {_record_of(change) for change in changes}
    tasks = sorted((key for kind, key in touched if kind == "task"), key=names.task_order)
    found = [paths.tasks_lock_file] if tasks else []
    found += [path for path in map(paths.task, tasks) if os.path.lexists(path)]
    if any(kind in ("member", "team") for kind, _ in touched):
        found.append(paths.config)
    agents = {change.to for change in changes if isinstance(change, Deliver)}
    return found + sorted({paths.inbox(agent) for agent in agents})


def make_plan(paths: TeamPaths, records: Records, changes: Sequence[Change], *, high: int) -> Plan:
    """What these changes mean for files, given what the files hold now."""
    plan = Plan(paths, tuple(changes), high=high)
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
            case Deliver(to, message):
                # Names that another program gave can share a mailbox.
                plan.mail.setdefault(names.inbox_stem(to), []).append(message)
            case PutMember() | RemoveMember() | PutTeam():
                if config is None:
                    config = records.config()
                    plan.expected[paths.config] = config.raw
                config = change_config(plan, config, change)
            case MarkMail():
                pass  # Logged only when it has happened already.
    if config is not None:
        plan.files[paths.config] = config.dump()
    for (kind, key), old in plan.old.items():
        if kind == "task":
            plan.expected[paths.task(key)] = old
    return plan


def _keep(plan: Plan, kind: str, key: str, record: Wire | None) -> None:
    if (kind, key) not in plan.before:
        plan.before[kind, key] = digest(record.raw) if record else None
        plan.old[kind, key] = record.raw if record else None


def change_config(
    plan: Plan, config: TeamConfig, change: PutMember | RemoveMember | PutTeam
) -> TeamConfig:
    """The team with one change made; the plan takes note of what that replaces."""
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
    """Whether a file holds exactly this (None: whether it is gone)."""
    try:
        return read_bytes(path) == data
    except FileNotFoundError:
        return data is None
    except Unreadable:
        return False


def event_line(
    *,
    seq: int,
    time: str,
    actor: str,
    op: str,
    changes: list[dict[str, Any]],
    base: list[str | None] | None = None,
    done: bool = False,
    observed: bool = False,
) -> bytes:
    """One line of the log. `done` says that it needs no carrying out."""
    raw: dict[str, Any] = {"seq": seq, "time": time, "actor": actor, "op": op}
    if observed:
        raw["observed"] = True
    if done:
        raw["done"] = True
    raw["changes"] = changes
    if base and any(base):
        raw["base"] = base
    return jsontext.dumps_line(raw) + b"\n"


def folders(paths: Sequence[str]) -> list[str]:
    """The folders of some files, each once."""
    return sorted({os.path.dirname(path) for path in paths})
