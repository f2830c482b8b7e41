"""What goes over the socket: JSON frames, errors by class, and the types of a store.

A frame is four bytes and a JSON text. The bytes hold the length of the text; their highest bit says
that the text continues in the next frame. Only answers and the operator's calls may.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any, cast

from bullpen.errors import (
    BullpenError,
    Conflict,
    Invalid,
    NotFound,
    Refused,
    StartFailed,
    Unavailable,
    Unreadable,
)
from bullpen.protocol import json_text
from bullpen.protocol.changes import Change, Deliver, UnknownChange, decode, encode
from bullpen.protocol.message import DeliveryState, Message
from bullpen.protocol.record.note import Note
from bullpen.protocol.request import Request
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import Entry, Mailbox, Problem, TeamState

VERSION = 2
"""Since 2, agents send operations instead of changes."""

FRAME_BYTES_MAX = 16 * 1024 * 1024
"""The longest frame, and so the longest call of an agent."""

FRAMES_MAX = 64
"""The most frames an answer may have."""

_HEAD = struct.Struct(">I")
_MORE = 1 << 31


def frames_of(*, operator: bool) -> int:
    """Return the most frames a call may have; the operator moves whole teams."""
    return FRAMES_MAX if operator else 1


class TooLong(ValueError):
    """A text that does not fit into its allowed frames."""


def pack(value: Any, *, frames_max: int = 1) -> bytes:
    """Return the frames that hold a value. Raises TooLong."""
    text = json_text.dumps_line(value)
    if len(text) > frames_max * FRAME_BYTES_MAX:
        raise TooLong(f"{len(text)} bytes")
    if len(text) <= FRAME_BYTES_MAX:
        return _HEAD.pack(len(text)) + text
    packed = bytearray()
    for start in range(0, len(text), FRAME_BYTES_MAX):
        part = text[start : start + FRAME_BYTES_MAX]
        more = _MORE if start + FRAME_BYTES_MAX < len(text) else 0
        packed += _HEAD.pack(len(part) | more) + part
    return bytes(packed)


async def receive(reader: asyncio.StreamReader, *, frames_max: int = 1) -> dict[str, Any]:
    """Return the next object.

    Raises EOFError if the other side closed the connection, and ValueError if it is not a frame, is
    too long (TooLong), or is not a JSON object.
    """
    text = b""
    for _ in range(frames_max):
        (head,) = _HEAD.unpack(await reader.readexactly(_HEAD.size))
        length = head & ~_MORE
        if length > FRAME_BYTES_MAX:
            raise TooLong(f"a frame of {length} bytes")
        text += await reader.readexactly(length)
        if not head & _MORE:
            return _object(json_text.loads_line(text))
    raise TooLong(f"more than {frames_max} frames")


def whole(data: bytes) -> dict[str, Any] | None:
    """Return the object that a frame holds; None while some of it is missing. Raises ValueError."""
    if len(data) < _HEAD.size:
        return None
    (length,) = _HEAD.unpack_from(data)
    text = data[_HEAD.size :]
    return None if len(text) < length else _object(json_text.loads_line(text[:length]))


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    return value


# Errors

_PLAIN: dict[str, type[BullpenError]] = {
    kind.__name__: kind for kind in (BullpenError, NotFound, Conflict, Invalid, Unavailable)
}


def error_raw(error: BullpenError) -> dict[str, Any]:
    """Return an error as a JSON object: its class, or the nearest one that the other side knows."""
    raw: dict[str, Any] = {"message": error.message, "remedy": error.remedy}
    match error:
        case Unreadable():
            return {**raw, "class": "Unreadable", "path": error.path, "why": error.why}
        case StartFailed():
            return {**raw, "class": "StartFailed", "screen": error.screen}
        case Refused() if not isinstance(error, Invalid):
            return {**raw, "class": "Refused", "reason": error.reason}
    known = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _PLAIN)
    return {**raw, "class": known}


def error_of(raw: Mapping[str, Any]) -> BullpenError:
    """Return the error that a JSON object stands for."""
    message, remedy = str(raw.get("message", "")), str(raw.get("remedy", ""))
    match raw.get("class"):
        case "Unreadable":
            return Unreadable(str(raw.get("path")), str(raw.get("why")), remedy=remedy)
        case "StartFailed":
            return StartFailed(message, screen=str(raw.get("screen")), remedy=remedy)
        case "Refused":
            return Refused(message, reason=str(raw.get("reason")), remedy=remedy)
        case kind:
            return _PLAIN.get(str(kind), Unavailable)(message, remedy=remedy)


# Records


def changes_raw(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """Return changes as JSON objects, including which ids were created just now."""
    return [
        {**encode(change), "fresh": True}
        if isinstance(change, Deliver) and change.fresh
        else encode(change)
        for change in changes
    ]


def changes_of(rows: Any, *, trust_fresh: bool = True) -> tuple[Change, ...]:
    """Return the changes that JSON objects stand for. Raises ValueError."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("changes must be a list of objects")
    return tuple(_change_of(row, trust_fresh) for row in rows)


def _change_of(row: dict[str, Any], trust_fresh: bool) -> Change:
    change = decode(row)
    if isinstance(change, UnknownChange):
        raise ValueError(f"not a change: {row['put']!r}")
    if isinstance(change, Deliver) and trust_fresh and row.get("fresh") is True:
        return replace(change, fresh=True)
    return change


def _problems_of(rows: Sequence[Sequence[str]]) -> tuple[Problem, ...]:
    return tuple(Problem(where, why) for where, why in rows)


def state_raw(state: TeamState) -> dict[str, Any]:
    """Return a whole team as JSON."""
    return {
        "team": state.team.raw,
        "tasks": {key: task.raw for key, task in state.tasks.items()},
        "requests": {key: request.raw for key, request in state.requests.items()},
        "seq": state.seq,
        "problems": [astuple(problem) for problem in state.problems],
        "notes": {key: note.raw for key, note in state.notes.items()},
    }


def state_of(raw: dict[str, Any]) -> TeamState:
    """Return the team that `state_raw` wrote."""
    return TeamState(
        TeamConfig.parse(raw["team"]),
        {key: Task.parse(row) for key, row in raw["tasks"].items()},
        {key: Request.parse(row) for key, row in raw["requests"].items()},
        raw["seq"],
        _problems_of(raw["problems"]),
        # A host of an earlier version has none.
        {key: Note.parse(row) for key, row in raw.get("notes", {}).items()},
    )


def box_raw(box: Mailbox) -> dict[str, Any]:
    """Return a mailbox as JSON."""
    return {
        "entries": [[entry.id, entry.message.raw, entry.state] for entry in box.entries],
        "problems": [astuple(problem) for problem in box.problems],
    }


def box_of(raw: dict[str, Any]) -> Mailbox:
    """Return the mailbox that `box_raw` wrote."""
    entries = tuple(
        Entry(message_id, Message.parse(row), cast("DeliveryState", state))
        for message_id, row, state in raw["entries"]
    )
    return Mailbox(entries, _problems_of(raw["problems"]))
