"""What every store refuses to keep: records that could not be read back or kept apart.

These are no rules of teamwork; they guard the form of records, the same in every store.
"""

from __future__ import annotations

from typing import Any

from bullpen.errors import Conflict, Invalid, NotFound
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
)
from bullpen.protocol.message import Message
from bullpen.protocol.request import Request
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.task import Task
from bullpen.store.base import StoreLimits


def no_team(team: str) -> NotFound:
    """What every operation on a team that is not there raises."""
    return NotFound(f"There is no team {team!r}.", remedy="List the teams: bullpen team list")


def team_taken(team: str) -> Conflict:
    """What making a team raises whose name another one has."""
    return Conflict(
        f"There is a team {team!r} already.",
        remedy=f"Choose another name, or delete it: bullpen team delete {team}",
    )


def check_change(change: Change, limits: StoreLimits) -> None:
    """Refuse a change that names a record wrongly."""
    match change:
        case PutTask(Task(id=task_id)) | DeleteTask(task_id):
            names.check_task_id(task_id)
        case PutMember(member):
            names.check_component(member.name, kind="member name")
        case PutRequest(request):
            names.check_component(request.id, kind="request id")
            if unasked := not_asked(request):
                raise Invalid(f"Request {request.id!r} asks nothing: {unasked}.", remedy="Say it.")
        case Deliver(to, message):
            names.check_component(to, kind="member name")
            check_message(message, limits)
        case PutTeam(fields) if "members" in fields:
            raise Invalid(
                "The members of a team are not a field of it.",
                remedy="Put or remove single members.",
            )
        case MarkMail(agent):
            raise Invalid(
                f"A commit cannot change the delivery states of {agent!r}'s mail.",
                remedy="Use acknowledge.",
            )
        case _:
            pass


def not_asked(request: Request) -> str:
    """What a request lacks without which nobody could answer it, or be told the answer."""
    needed = {"plan": "plan", "permission": "toolName"}.get(request.kind)
    if needed is not None and not isinstance(request.subject.get(needed), str):
        return f"subject.{needed} is not a text"
    for key in ("reason", "planFilePath", "toolUseId", "description"):
        if not isinstance(request.subject.get(key), str | None):
            return f"subject.{key} is not a text"
    return ""


def check_message(message: Message, limits: StoreLimits) -> None:
    """Refuse a message without an id, or one that is too long."""
    if not message.msg_id:
        raise Invalid(f"A message from {message.sender!r} has no id.", remedy="Give it a msg_id.")
    size, size_max = len(jsontext.dumps_line(message.raw)), limits.message_bytes_max
    if size > size_max:
        raise Invalid(
            f"Message {message.msg_id!r} has {size} bytes; at most {size_max} are allowed.",
            remedy="Put the content into a file and send its path.",
        )


def check_config(config: TeamConfig) -> None:
    """Refuse a new team with rows that are no members, or with two of one name."""
    if config.bad_rows:
        index, why = config.bad_rows[0]
        raise Invalid(
            f"Row {index} of the members of team {config.name!r} is no member: {why}.",
            remedy="Correct the row.",
        )


def with_fields(raw: dict[str, Any], fields: dict[str, Any]) -> TeamConfig:
    """A team with some of its own fields set, its members last as ever; None removes a field."""
    header = {key: value for key, value in raw.items() if key != "members"}
    header.update(fields)
    kept = {key: value for key, value in header.items() if value is not None or key not in fields}
    try:
        return TeamConfig.parse({**kept, "members": raw.get("members", [])})
    except ValueError as error:
        raise Invalid(f"That is no team: {error}.", remedy="Correct the field.") from None
