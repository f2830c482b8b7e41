"""Replays a log: from events to the team they describe. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, assert_never, overload

from bullpen.protocol import json_text
from bullpen.protocol.changes import (
    Change,
    DeleteTask,
    Deliver,
    Event,
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
from bullpen.protocol.message import DeliveryState
from bullpen.protocol.record.note import Note
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member
from bullpen.store.events.checkpoint import is_begin

T = TypeVar("T")
Keep = Callable[[Task | Member | Request | Note], T]
"""Maps a task, member, request or note to what a replay keeps of it: itself, or its JSON object."""


def raw_of(record: Task | Member | Request | Note) -> dict[str, Any]:
    """Return the JSON object of a record, which is what most callers keep."""
    return record.raw


@dataclass(slots=True)
class Folded(Generic[T]):
    """A team as the events so far describe it.

    `mail` has the state of every delivered message, by agent and message id in order of delivery,
    except for messages that other programs consumed.
    """

    seq: int = 0
    team: dict[str, Any] = field(default_factory=dict)
    members: dict[str, T] = field(default_factory=dict)
    tasks: dict[str, T] = field(default_factory=dict)
    requests: dict[str, T] = field(default_factory=dict)
    mail: dict[str, dict[str, DeliveryState]] = field(default_factory=dict)
    notes: dict[str, T] = field(default_factory=dict)


def apply(folded: Folded[T], event: Event, *, keep: Keep[T]) -> None:
    """Apply one event in place. Raises ValueError, without a change, if it is not the next.

    An event that a log begins with after a gap replaces everything.
    """
    if is_begin(event, folded.seq):
        folded.team, folded.members, folded.tasks, folded.requests = {}, {}, {}, {}
        folded.mail, folded.notes = {}, {}
    elif event.seq != folded.seq + 1:
        raise ValueError(f"event {event.seq} cannot follow event {folded.seq}")
    for change in event.changes:
        _apply_change(folded, change, keep)
    folded.seq = event.seq


def _apply_change(folded: Folded[T], change: Change, keep: Keep[T]) -> None:
    match change:
        case PutTask(task):
            folded.tasks[task.id] = keep(task)
        case DeleteTask(task_id):
            folded.tasks.pop(task_id, None)
        case PutMember(member):
            folded.members[member.name] = keep(member)
        case RemoveMember(name):
            folded.members.pop(name, None)
        case PutTeam(fields):
            merged = {**folded.team, **fields}
            folded.team = {key: value for key, value in merged.items() if value is not None}
        case PutRequest(request):
            folded.requests[request.id] = keep(request)
        case RemoveRequest(request_id):
            folded.requests.pop(request_id, None)
        case PutNote(note):
            folded.notes[note.name] = keep(note)
        case Deliver(to, message):
            # A repeated delivery changes nothing: the message keeps its state.
            state: DeliveryState = "seen" if message.read else "stored"
            folded.mail.setdefault(to, {}).setdefault(message.id, state)
        case MarkMail(agent, ids, state):
            _mark(folded.mail.get(agent, {}), ids, state)
        case UnknownChange():
            pass  # A newer version made it. It stays in the log.
        case _:
            assert_never(change)


def _mark(box: dict[str, DeliveryState], ids: Iterable[str], state: DeliveryState) -> None:
    for message_id in ids:
        if state == "consumed":
            box.pop(message_id, None)
        elif message_id in box:
            box[message_id] = state


@overload
def fold(events: Iterable[Event]) -> Folded[dict[str, Any]]: ...
@overload
def fold(events: Iterable[Event], *, keep: Keep[T]) -> Folded[T]: ...
def fold(events: Iterable[Event], *, keep: Keep[Any] = raw_of) -> Folded[Any]:
    """Return the team that a whole log describes; by default with every record's JSON object.

    Raises ValueError if an event is missing, or if they are out of order.
    """
    folded: Folded[Any] = Folded()
    for event in events:
        apply(folded, event, keep=keep)
    return folded


def digest(raw: dict[str, Any]) -> str:
    """Return a short digest of a record, to check that it is still what the log describes."""
    return hashlib.blake2b(json_text.dumps_line(raw), digest_size=8).hexdigest()
