"""Changes to a team, and the events that record them: one JSON object per line in the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar, cast, get_args

from bullpen.protocol.message import DeliveryState, Message
from bullpen.protocol.record.note import Note
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PutTask:
    """Write a task, new or changed."""

    task: Task


@dataclass(frozen=True, slots=True)
class DeleteTask:
    """Delete a task. Its id is never used again."""

    task_id: str


@dataclass(frozen=True, slots=True)
class PutMember:
    """Write a member's roster entry, new or changed."""

    member: Member


@dataclass(frozen=True, slots=True)
class RemoveMember:
    """Remove a member's roster entry. The mailbox stays."""

    name: str


@dataclass(frozen=True, slots=True)
class PutTeam:
    """Set fields of the team itself (never `members`); a field set to None is removed."""

    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Deliver:
    """Append a message, unless its id is in the mailbox; a `fresh` id was created just now."""

    to: str
    message: Message
    fresh: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class PutRequest:
    """Write a request, new or answered."""

    request: Request


@dataclass(frozen=True, slots=True)
class RemoveRequest:
    """Remove a request that was answered long ago. The log still has it."""

    request_id: str


@dataclass(frozen=True, slots=True)
class PutNote:
    """Write the next version of a note. The log keeps the earlier ones."""

    note: Note


@dataclass(frozen=True, slots=True)
class MarkMail:
    """Messages of one mailbox reached another delivery state."""

    agent: str
    ids: tuple[str, ...]
    state: DeliveryState


@dataclass(frozen=True, slots=True)
class UnknownChange:
    """A change of a newer version. It is kept as it is, and means nothing to this version."""

    raw: dict[str, Any]


Change: TypeAlias = (
    PutTask
    | DeleteTask
    | PutMember
    | RemoveMember
    | PutTeam
    | Deliver
    | PutRequest
    | RemoveRequest
    | PutNote
    | MarkMail
    | UnknownChange
)


def encode(change: Change) -> dict[str, Any]:
    """Return the change as a JSON object."""
    match change:
        case PutTask(task):
            return {"put": "task", "task": task.raw}
        case DeleteTask(task_id):
            return {"put": "task_deleted", "id": task_id}
        case PutMember(member):
            return {"put": "member", "member": member.raw}
        case RemoveMember(name):
            return {"put": "member_removed", "name": name}
        case PutTeam(fields):
            return {"put": "team", "fields": fields}
        case Deliver(to, message):
            return {"put": "message", "to": to, "id": message.id, "message": message.raw}
        case PutRequest(request):
            return {"put": "request", "request": request.raw}
        case RemoveRequest(request_id):
            return {"put": "request_removed", "id": request_id}
        case PutNote(note):
            return {"put": "note", "note": note.raw}
        case MarkMail(agent, ids, state):
            return {"put": "mail_state", "agent": agent, "ids": list(ids), "state": state}
        case UnknownChange(raw):
            return raw


def _at(raw: dict[str, Any], key: str, kind: type[T]) -> T:
    value = raw[key]
    if not isinstance(value, kind):
        raise TypeError(f"{key} is not of type {kind.__name__}")
    return value


def _mark(raw: dict[str, Any]) -> MarkMail:
    state, ids = _at(raw, "state", str), _at(raw, "ids", list)
    if state not in get_args(DeliveryState):
        raise TypeError(f"state {state!r} is unknown")
    if not all(isinstance(message_id, str) for message_id in ids):
        raise TypeError("ids are not all of type str")
    return MarkMail(_at(raw, "agent", str), tuple(ids), cast("DeliveryState", state))


def _deliver(raw: dict[str, Any]) -> Deliver:
    message = Message.parse(raw["message"])
    if raw["id"] != message.id:
        raise TypeError(f"id is not that of message {message.id!r}")
    return Deliver(_at(raw, "to", str), message)


_DECODERS: dict[str, Callable[[dict[str, Any]], Change]] = {
    "task": lambda raw: PutTask(Task.parse(raw["task"])),
    "task_deleted": lambda raw: DeleteTask(_at(raw, "id", str)),
    "member": lambda raw: PutMember(Member.parse(raw["member"])),
    "member_removed": lambda raw: RemoveMember(_at(raw, "name", str)),
    "team": lambda raw: PutTeam(_at(raw, "fields", dict)),
    "message": _deliver,
    "request": lambda raw: PutRequest(Request.parse(raw["request"])),
    "request_removed": lambda raw: RemoveRequest(_at(raw, "id", str)),
    "note": lambda raw: PutNote(Note.parse(raw["note"])),
    "mail_state": _mark,
}


def decode(raw: dict[str, Any]) -> Change:
    """Decode a JSON object of the log. Raises ValueError if it is damaged.

    A kind of change that this version does not know is an `UnknownChange`.
    """
    try:
        decoder = _DECODERS.get(_at(raw, "put", str))
        return UnknownChange(raw) if decoder is None else decoder(raw)
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a change: {error}") from error


@dataclass(frozen=True, slots=True)
class Event:
    """What one commit changed. `seq` counts from 1 without gaps; replaying all gives the team.

    `observed` marks what another program changed: it enters the log when Bullpen first sees it.
    """

    seq: int
    time: str
    actor: str
    op: str
    changes: tuple[Change, ...]
    observed: bool = False

    def encode(self) -> dict[str, Any]:
        """Return the event as a JSON object."""
        head = {"seq": self.seq, "time": self.time, "actor": self.actor, "op": self.op}
        observed = {"observed": True} if self.observed else {}
        return {**head, **observed, "changes": [encode(change) for change in self.changes]}

    @classmethod
    def decode(cls, raw: dict[str, Any]) -> Event:
        """Decode a JSON object of the log. Raises ValueError if it is damaged."""
        try:
            return cls(
                seq=_at(raw, "seq", int),
                time=_at(raw, "time", str),
                actor=_at(raw, "actor", str),
                op=_at(raw, "op", str),
                changes=tuple(decode(change) for change in _at(raw, "changes", list)),
                observed=raw.get("observed") is True,
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an event: {error}") from error
