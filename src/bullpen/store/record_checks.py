"""Records that every store refuses, because they could not be read back or kept apart.

These are not rules of teamwork: they check the form of records, the same in every store.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from bullpen.errors import Conflict, Invalid, NotFound
from bullpen.protocol import json_text, names
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
    RemoveRequest,
    UnknownChange,
)
from bullpen.protocol.message import Message
from bullpen.protocol.record.note import NOTE_BYTES_MAX, Note, check_note_name
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import StoreLimits

ANY_SIZE = StoreLimits(message_bytes_max=sys.maxsize)
"""For changes in a log: they were accepted before, so their length is not checked."""


def no_team(team: str) -> NotFound:
    """Return the error of every operation on a team that does not exist."""
    return NotFound(f"There is no team {team!r}.", remedy="List the teams: bullpen team list")


def team_taken(team: str) -> Conflict:
    """Return the error for a new team whose name is taken."""
    return Conflict(
        f"A team {team!r} already exists.",
        remedy=f"Choose another name, or delete it: bullpen team delete {team}",
    )


def no_message(agent: str, message_id: str) -> NotFound:
    """Return the error for a message that is not in a mailbox."""
    return NotFound(
        f"The mailbox of {agent!r} has no message {message_id!r}.",
        remedy="Read the mailbox without naming a message.",
    )


def creation_of(config: TeamConfig) -> list[Change]:
    """Return the changes that create a team."""
    return [PutTeam(config.header), *map(PutMember, config.roster)]


def checked(changes: Iterable[Change], header: dict[str, Any], limits: StoreLimits) -> list[Change]:
    """Return the changes to a team with these fields. Raises Invalid if one is not valid."""
    found: list[Change] = []
    for change in changes:
        check_change(change, limits)
        if isinstance(change, PutTeam):
            header = with_fields(header, change.fields).header
        found.append(change)
    return found


def check_change(change: Change, limits: StoreLimits) -> None:
    """Refuse a change with an invalid name or record."""
    match change:
        case PutTask(Task(id=task_id)) | DeleteTask(task_id):
            names.check_task_id(task_id)
        case PutMember(member):
            names.check_component(member.name, kind="member name")
        case PutRequest(request):
            names.check_component(request.id, kind="request id")
            if unasked := not_asked(request):
                raise Invalid(
                    f"Request {request.id!r} is incomplete: {unasked}.", remedy="Complete it."
                )
        case RemoveRequest(request_id):
            names.check_component(request_id, kind="request id")
        case PutNote(note):
            check_note(note)
        case Deliver(to, message):
            names.check_component(to, kind="member name")
            check_message(message, limits)
        case PutTeam(fields) if "members" in fields:
            raise Invalid(
                "The members of a team are not one of its fields.",
                remedy="Add or remove single members.",
            )
        case MarkMail(agent):
            raise Invalid(
                f"A commit cannot change the delivery states of {agent!r}'s mail.",
                remedy="Use acknowledge.",
            )
        case UnknownChange(raw):
            raise Invalid(
                f"The change {str(raw.get('put'))[:40]!r} is unknown to this version of Bullpen.",
                remedy="Upgrade Bullpen.",
            )
        case _:
            pass


def not_asked(request: Request) -> str:
    """Return what a request lacks that is needed to answer it, or to tell its asker."""
    needed = {"plan": "plan", "permission": "toolName"}.get(request.kind)
    if needed is not None and not isinstance(request.subject.get(needed), str):
        return f"subject.{needed} must be a text"
    for key in ("reason", "planFilePath", "toolUseId", "description"):
        if not isinstance(request.subject.get(key), str | None):
            return f"subject.{key} must be a text"
    return ""


def check_note(note: Note) -> None:
    """Refuse a note that could not be a file: its name, or a text that is not UTF-8 or too long."""
    check_note_name(note.name)
    try:
        size = len(note.text.encode())
    except UnicodeEncodeError:
        raise Invalid(
            f"Note {note.name!r} has characters that are not valid Unicode.",
            remedy="Remove them.",
        ) from None
    if size > NOTE_BYTES_MAX:
        raise Invalid(
            f"Note {note.name!r} has {size} bytes. The limit is {NOTE_BYTES_MAX}.",
            remedy="Shorten it, or move a part of it to another note.",
        )


def check_message(message: Message, limits: StoreLimits) -> None:
    """Refuse a message without an id, or one that is too long."""
    if not message.msg_id:
        raise Invalid(f"A message from {message.sender!r} has no id.", remedy="Give it a msg_id.")
    size, size_max = len(json_text.dumps_line(message.raw)), limits.message_bytes_max
    if size > size_max:
        raise Invalid(
            f"Message {message.msg_id!r} has {size} bytes. The limit is {size_max}.",
            remedy="Put the content in a file and send its path.",
        )


def check_config(config: TeamConfig) -> None:
    """Refuse a new team with invalid member entries, or with two of the same name."""
    if config.bad_rows:
        index, why = config.bad_rows[0]
        raise Invalid(
            f"Entry {index} in the members of team {config.name!r} is not valid: {why}.",
            remedy="Correct the entry.",
        )


def with_fields(raw: dict[str, Any], fields: dict[str, Any]) -> TeamConfig:
    """Return a team with some fields set, its members last as always; None removes a field."""
    header = {key: value for key, value in raw.items() if key != "members"}
    header.update(fields)
    kept = {key: value for key, value in header.items() if value is not None or key not in fields}
    try:
        return TeamConfig.parse({**kept, "members": raw.get("members", [])})
    except ValueError as error:
        raise Invalid(
            f"The team's fields are not valid: {error}.", remedy="Correct the field."
        ) from None
