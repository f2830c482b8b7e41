"""Finds what other programs changed and what a dead Bullpen process left unfinished."""

from __future__ import annotations

import os
from typing import Any

from bullpen.errors import Invalid, Unavailable, Unreadable
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
    UnknownChange,
    decode,
)
from bullpen.protocol.record.note import Note
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member, TeamConfig
from bullpen.store.contract import Entry
from bullpen.store.events.concerns import record_of
from bullpen.store.events.fold import digest
from bullpen.store.files.commit_plan import CommitPlan, make_plan
from bullpen.store.files.disk import list_folder
from bullpen.store.files.log.digests import Digests
from bullpen.store.files.mail import read_mail
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.records import Records, look_at
from bullpen.store.record_checks import ANY_SIZE, check_change


def unlogged(known: Digests, plan: CommitPlan) -> list[Change]:
    """Return what a plan is about to replace, where it differs from the log."""
    found: list[Change] = []
    for (kind, key), before in plan.before.items():
        old = plan.old[kind, key]
        match kind:
            case "task":
                if before != known.tasks.get(key):
                    found.append(_task_change(key, old))
            case "member":
                if before != known.members.get(key):
                    found.append(_member_change(key, old))
            case "request":
                if old is not None and before != known.requests.get(key):
                    found.append(PutRequest(Request.parse(old)))
            case "note":
                if old is not None and before != known.notes.get(key):
                    found.append(PutNote(Note.parse(old)))
            case "team":
                found += _header_change(known.fields, old or {})
    return found


def _task_change(task_id: str, raw: dict[str, Any] | None) -> Change:
    return DeleteTask(task_id) if raw is None else PutTask(Task.parse(raw))


def _member_change(name: str, raw: dict[str, Any] | None) -> Change:
    return RemoveMember(name) if raw is None else PutMember(Member.parse(raw))


def _header_change(logged: dict[str, Any], now: dict[str, Any]) -> list[Change]:
    # In the log, a null written by another program means that the field is missing.
    changed = {
        key: value for key, value in now.items() if value is not None and logged.get(key) != value
    }
    gone = dict.fromkeys(key for key in logged if now.get(key) is None)
    return [PutTeam({**changed, **gone})] if changed or gone else []


def all_unlogged(records: Records, known: Digests) -> list[Change]:
    """Return everything on disk that differs from the log. Notes the inboxes that do not."""
    config = records.config()
    found = _config_changes(known.fields, known.members, config)
    members = [member.name for member in config.roster]
    tasks, problems = records.tasks()
    broken = {os.path.basename(problem.where)[:-5] for problem in problems}
    for task_id in [*tasks, *(known.tasks.keys() - tasks.keys() - broken)]:
        raw = tasks[task_id].raw if task_id in tasks else None
        if _digest(raw) != known.tasks.get(task_id):
            found.append(_task_change(task_id, raw))
    for request_id, request in records.requests()[0].items():
        if digest(request.raw) != known.requests.get(request_id):
            found.append(PutRequest(request))
    for name, note in records.notes().notes.items():
        if digest(note.raw) != known.notes.get(name):
            found.append(PutNote(note))
    return found + _unlogged_mail(records.paths, known, members)


def config_changes(before: TeamConfig, after: TeamConfig) -> list[Change]:
    """Return how a team and its members changed."""
    rows = {member.name: digest(member.raw) for member in before.roster}
    return _config_changes(before.header, rows, after)


def _config_changes(
    fields: dict[str, Any], rows: dict[str, str], config: TeamConfig
) -> list[Change]:
    found = _header_change(fields, config.header)
    members = {member.name: member for member in config.roster}
    for name in members.keys() | rows.keys():
        raw = members[name].raw if name in members else None
        if _digest(raw) != rows.get(name):
            found.append(_member_change(name, raw))
    found.sort(key=lambda change: _member_order(change, list(members)))
    return found


def _member_order(change: Change, names_in_order: list[str]) -> int:
    if isinstance(change, PutMember):
        return names_in_order.index(change.member.name)
    return -1


def _digest(raw: dict[str, Any] | None) -> str | None:
    return digest(raw) if raw is not None else None


def _unlogged_mail(paths: TeamPaths, known: Digests, members: list[str]) -> list[Change]:
    agents = {stem: name for name in [*known.mail, *members] if (stem := stem_of(name))}
    stems = [name[:-5] for name in list_folder(paths.inboxes) if is_inbox(name)]
    found: list[Change] = []
    for stem in sorted({*stems, *agents}):
        agent = agents.get(stem, stem)
        try:
            found += _unlogged_of(paths, agent, known)
        except Unreadable:
            continue  # `checkup` reports it; its content is unknown.
    return found


def _unlogged_of(paths: TeamPaths, agent: str, known: Digests) -> list[Change]:
    """Return the unlogged changes of one mailbox. An unchanged mailbox is not read again."""
    look = look_at(paths.inbox(agent))
    if look is not None and known.looked.get(agent) == look.stamp:
        return []
    known.looked.pop(agent, None)
    box = read_mail.read(paths, agent, after=None, history=False)
    found = _unlogged_in(paths, agent, box.entries, known.mail.get(agent, {}))
    if look is not None and look.lasts and not found:
        known.looked[agent] = look.stamp
    return found


def stem_of(name: str) -> str:
    """Return the file name of an agent's inbox; empty if the name cannot have one."""
    try:
        return names.inbox_stem(name)
    except Invalid:
        return ""


def is_inbox(name: str) -> bool:
    """Return whether a file can be an inbox: its name is one that an inbox would have."""
    stem = name.removesuffix(".json")
    return stem not in ("", name) and stem_of(stem) == stem


def _unlogged_in(
    paths: TeamPaths, agent: str, entries: tuple[Entry, ...], logged: dict[str, str]
) -> list[Change]:
    found: list[Change] = [
        Deliver(agent, entry.message) for entry in entries if entry.id not in logged
    ]
    here = {entry.id for entry in entries}
    gone = [key for key in logged if key not in here]
    # A Bullpen process may have died after it archived messages and before it logged that.
    old = read_mail.archived(paths, agent) if gone else {}
    archived = [key for key in gone if old.get(key)]
    seen = [entry.id for entry in entries if entry.state == "seen"]
    unsaid = [key for key in [*archived, *seen] if logged.get(key, "seen") != "seen"]
    consumed = [key for key in gone if not old.get(key)]
    marks = (
        MarkMail(agent, tuple(unsaid), "seen"),
        MarkMail(agent, tuple(archived), "archived"),
        MarkMail(agent, tuple(consumed), "consumed"),
    )
    return found + [mark for mark in marks if mark.ids]


class NewerCommit(Unavailable):
    """A newer version died in the middle of a commit that this version does not understand."""


def redo_plan(
    records: Records, raw: dict[str, Any], *, high: int, newer: bool = False
) -> CommitPlan:
    """Return what remains to be done for a logged event.

    A change is repeated only if the record is still what it was when the event was logged. Raises
    Unreadable if the event is damaged, or NewerCommit if a `newer` version or kind of change may be
    why it cannot be carried out.
    """
    try:
        changes = tuple(decode(change) for change in raw["changes"])
        newer = newer or any(isinstance(change, UnknownChange) for change in changes)
        for change in changes:
            check_change(change, ANY_SIZE)
        replaced = list(zip(changes, raw.get("base") or [None] * len(changes), strict=True))
    except (ValueError, KeyError, TypeError, Invalid) as error:
        if newer:
            raise NewerCommit(
                f"A newer version of Bullpen did not finish event {raw['seq']} of team "
                f"{records.paths.name!r}, and this version cannot: {error}",
                remedy="Run any command of the newer version on this team.",
            ) from None
        raise Unreadable(records.paths.events, f"event {raw['seq']}: {error}") from None
    due = tuple(
        change
        for change, before in replaced
        if isinstance(change, Deliver)
        or _current(records, change) == before
        or _has_text(records, change)
    )
    return make_plan(records, due, high=high)


def _has_text(records: Records, change: Change) -> bool:
    """Return whether a note's file was put in place, and perhaps not its record."""
    if not isinstance(change, PutNote):
        return False
    try:
        file = records.note_file(change.note.name)
    except Unreadable:
        return False
    return change.note.text == ("" if file is None else file.text)


def _current(records: Records, change: Change) -> str | None:
    try:
        if isinstance(change, PutTeam):
            return digest(records.config().header)
        record = records.find(*record_of(change))
    except Unreadable:
        return "unreadable"
    return digest(record.raw) if record else None
