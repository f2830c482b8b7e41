"""What other programs changed, and what a dead process of ours left half done."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from bullpen.errors import Invalid, Unreadable
from bullpen.protocol import names
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
    decode,
)
from bullpen.protocol.request import Request
from bullpen.protocol.roster import Member, TeamConfig
from bullpen.protocol.task import Task
from bullpen.protocol.wire import Wire
from bullpen.store.base import Entry, StoreLimits
from bullpen.store.checks import check_change
from bullpen.store.files import mailbox
from bullpen.store.files.disk import list_folder
from bullpen.store.files.ledger import Ledger
from bullpen.store.files.plan import Plan, make_plan
from bullpen.store.files.records import look_at
from bullpen.store.fold import digest

if TYPE_CHECKING:
    from bullpen.store.files.writer import Writer


# What was logged was not too long then.
_ANY_SIZE = StoreLimits(message_bytes_max=sys.maxsize)


def unlogged(known: Ledger, plan: Plan) -> list[Change]:
    """What a plan is about to replace, where it is not what the log says it should be."""
    found: list[Change] = []
    for (kind, key), before in plan.before.items():
        old = plan.old[kind, key]
        match kind:
            case "task":
                found += _task_change(key, before, known.tasks.get(key), old)
            case "member":
                found += _member_change(key, before, known.members.get(key), old)
            case "request":
                if old is not None and before != known.requests.get(key):
                    found.append(PutRequest(Request.parse(old)))
            case "team":
                found += _header_change(known.fields, old or {})
    return found


def _task_change(
    task_id: str, now: str | None, logged: str | None, raw: dict[str, Any] | None
) -> list[Change]:
    if now == logged:
        return []
    return [PutTask(Task.parse(raw)) if raw is not None else DeleteTask(task_id)]


def _member_change(
    name: str, now: str | None, logged: str | None, raw: dict[str, Any] | None
) -> list[Change]:
    if now == logged:
        return []
    return [PutMember(Member.parse(raw)) if raw is not None else RemoveMember(name)]


def _header_change(logged: dict[str, Any], now: dict[str, Any]) -> list[Change]:
    # A null of another program means "not there" in the log.
    changed = {
        key: value for key, value in now.items() if value is not None and logged.get(key) != value
    }
    gone = dict.fromkeys(key for key in logged if now.get(key) is None)
    return [PutTeam({**changed, **gone})] if changed or gone else []


def all_unlogged(writer: Writer) -> list[Change]:
    """Everything on disk that is not what the log says."""
    known, records = writer.known(), writer.records
    config = records.config()
    found = _config_changes(known.fields, known.members, config)
    members = [member.name for member in config.roster]
    tasks, problems = records.tasks()
    broken = {os.path.basename(problem.where)[:-5] for problem in problems}
    for task_id in [*tasks, *(known.tasks.keys() - tasks.keys() - broken)]:
        raw = tasks[task_id].raw if task_id in tasks else None
        found += _task_change(task_id, _digest(raw), known.tasks.get(task_id), raw)
    for request_id, request in records.requests()[0].items():
        if digest(request.raw) != known.requests.get(request_id):
            found.append(PutRequest(request))
    return found + _unlogged_mail(writer, known, members)


def config_changes(before: TeamConfig, after: TeamConfig) -> list[Change]:
    """What became of a team and its members."""
    rows = {member.name: digest(member.raw) for member in before.roster}
    return _config_changes(before.header, rows, after)


def _config_changes(
    fields: dict[str, Any], rows: dict[str, str], config: TeamConfig
) -> list[Change]:
    found = _header_change(fields, config.header)
    members = {member.name: member for member in config.roster}
    for name in members.keys() | rows.keys():
        raw = members[name].raw if name in members else None
        found += _member_change(name, _digest(raw), rows.get(name), raw)
    found.sort(key=lambda change: _member_order(change, list(members)))
    return found


def _member_order(change: Change, names_in_order: list[str]) -> int:
    if isinstance(change, PutMember):
        return names_in_order.index(change.member.name)
    return -1


def _digest(raw: dict[str, Any] | None) -> str | None:
    return digest(raw) if raw is not None else None


def _unlogged_mail(writer: Writer, known: Ledger, members: list[str]) -> list[Change]:
    agents = {stem: name for name in [*known.mail, *members] if (stem := stem_of(name))}
    stems = [name[:-5] for name in list_folder(writer.paths.inboxes) if is_inbox(name)]
    found: list[Change] = []
    for stem in sorted({*stems, *agents}):
        agent = agents.get(stem, stem)
        try:
            found += _unlogged_of(writer, agent, known)
        except Unreadable:
            continue  # `checkup` reports it; nothing is known about what is in it.
    return found


def _unlogged_of(writer: Writer, agent: str, known: Ledger) -> list[Change]:
    """The same of one mailbox. One that has not changed since nothing was found is not read."""
    looked = writer.files.looked
    look = look_at(writer.paths.inbox(agent))
    if look is not None and looked.get(agent) == look.stamp:
        return []
    looked.pop(agent, None)
    box = mailbox.read(writer.paths, agent, after=None, history=False)
    found = _unlogged_in(writer, agent, box.entries, known.mail.get(agent, {}))
    if look is not None and look.lasts and not found:
        looked[agent] = look.stamp
    return found


def stem_of(name: str) -> str:
    """The file name of an agent's inbox; empty for a name that can have none."""
    try:
        return names.inbox_stem(name)
    except Invalid:
        return ""


def is_inbox(name: str) -> bool:
    """Whether a file can be somebody's inbox: its name is one that an inbox would be given."""
    stem = name.removesuffix(".json")
    return stem not in ("", name) and stem_of(stem) == stem


def _unlogged_in(
    writer: Writer, agent: str, entries: tuple[Entry, ...], logged: dict[str, str]
) -> list[Change]:
    found: list[Change] = [
        Deliver(agent, entry.message) for entry in entries if entry.id not in logged
    ]
    here = {entry.id for entry in entries}
    gone = [key for key in logged if key not in here]
    # Our own process may have died after it archived messages and before it said so.
    old = mailbox.archived(writer.paths, agent) if gone else {}
    archived = [key for key in gone if old.get(key)]
    seen = [entry.id for entry in entries if entry.state == "seen"]
    unsaid = [key for key in [*archived, *seen] if logged.get(key, "seen") != "seen"]
    consumed = [key for key in gone if not old.get(key)]
    if unsaid:
        found.append(MarkMail(agent, tuple(unsaid), "seen"))
    if archived:
        found.append(MarkMail(agent, tuple(archived), "archived"))
    if consumed:
        found.append(MarkMail(agent, tuple(consumed), "consumed"))
    return found


def redo_plan(writer: Writer, raw: dict[str, Any]) -> Plan:
    """What of a logged event still has to be carried out.

    A change is repeated only where the record is still what it was when the event was logged.
    """
    try:
        changes = tuple(decode(change) for change in raw["changes"])
        for change in changes:
            check_change(change, _ANY_SIZE)
        replaced = list(zip(changes, raw.get("base") or [None] * len(changes), strict=True))
    except (ValueError, KeyError, TypeError, Invalid) as error:
        raise Unreadable(writer.paths.events, f"event {raw['seq']}: {error}") from None
    due = tuple(
        change
        for change, before in replaced
        if isinstance(change, Deliver) or _current(writer, change) == before
    )
    return make_plan(writer.paths, writer.records, due, high=writer.log.head.high)


def _current(writer: Writer, change: Change) -> str | None:
    record: Wire | None
    try:
        match change:
            case PutTask(task):
                record = writer.records.task(task.id)
            case DeleteTask(task_id):
                record = writer.records.task(task_id)
            case PutRequest(request):
                record = writer.records.request(request.id)
            case PutMember(member):
                record = writer.records.config().member(member.name)
            case RemoveMember(name):
                record = writer.records.config().member(name)
            case _:
                return digest(writer.records.config().header)
    except Unreadable:
        return "unreadable"
    return digest(record.raw) if record else None
