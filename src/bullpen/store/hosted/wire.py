"""What goes over the socket: frames of JSON, errors by their class, and the types of a store.

A frame is four bytes and a JSON text. The bytes hold the length of the text; their highest bit
says that the text goes on in the next frame: answers may, and what the operator asks.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from bullpen.protocol import jsontext
from bullpen.protocol.changes import Change, Deliver, decode, encode
from bullpen.protocol.message import DeliveryState, Message
from bullpen.protocol.request import Request
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.task import Task
from bullpen.store.base import Entry, Finding, Mailbox, Problem, TeamState

FRAME_BYTES_MAX = 16 * 1024 * 1024
"""The longest frame, and so the longest question of an agent."""

FRAMES_MAX = 64
"""Of how many frames an answer may consist."""

_HEAD = struct.Struct(">I")
_MORE = 1 << 31


def frames_of(*, operator: bool) -> int:
    """Of how many frames a question may consist; whoever runs the store moves whole teams."""
    return FRAMES_MAX if operator else 1


class TooLong(ValueError):
    """A text that does not fit into the frames that it may have."""


def pack(value: Any, *, frames_max: int = 1) -> bytes:
    """The frames that hold a value. Raises TooLong."""
    text = jsontext.dumps_line(value)
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
    """The next object.

    Raises:
        EOFError: the other side hung up.
        ValueError: what came is no frame, too long (TooLong), or holds no JSON object.
    """
    text = b""
    for _ in range(frames_max):
        (head,) = _HEAD.unpack(await reader.readexactly(_HEAD.size))
        length = head & ~_MORE
        if length > FRAME_BYTES_MAX:
            raise TooLong(f"a frame of {length} bytes")
        text += await reader.readexactly(length)
        if not head & _MORE:
            return _object(jsontext.loads_line(text))
    raise TooLong(f"more than {frames_max} frames")


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is no object")
    return value


# Errors

_PLAIN: dict[str, type[BullpenError]] = {
    kind.__name__: kind for kind in (BullpenError, NotFound, Conflict, Invalid, Unavailable)
}


def error_raw(error: BullpenError) -> dict[str, Any]:
    """An error as a JSON object: its class, or the nearest that the other side knows."""
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
    """The error that a JSON object stands for."""
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
    """Changes as JSON objects, with the word of who made an id just now."""
    return [
        {**encode(change), "fresh": True}
        if isinstance(change, Deliver) and change.fresh
        else encode(change)
        for change in changes
    ]


def changes_of(rows: Any, *, trust_fresh: bool = True) -> tuple[Change, ...]:
    """The changes that JSON objects stand for. Raises ValueError."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("changes are no list of objects")
    return tuple(_change_of(row, trust_fresh) for row in rows)


def _change_of(row: dict[str, Any], trust_fresh: bool) -> Change:
    change = decode(row)
    if isinstance(change, Deliver) and trust_fresh and row.get("fresh") is True:
        return replace(change, fresh=True)
    return change


def _problems_raw(problems: Sequence[Problem]) -> list[list[str]]:
    return [[problem.where, problem.why] for problem in problems]


def _problems_of(rows: Sequence[Sequence[str]]) -> tuple[Problem, ...]:
    return tuple(Problem(where, why) for where, why in rows)


def state_raw(state: TeamState) -> dict[str, Any]:
    """A whole team."""
    return {
        "team": state.team.raw,
        "tasks": {key: task.raw for key, task in state.tasks.items()},
        "requests": {key: request.raw for key, request in state.requests.items()},
        "seq": state.seq,
        "problems": _problems_raw(state.problems),
    }


def state_of(raw: dict[str, Any]) -> TeamState:
    """The team that `state_raw` wrote."""
    return TeamState(
        TeamConfig.parse(raw["team"]),
        {key: Task.parse(row) for key, row in raw["tasks"].items()},
        {key: Request.parse(row) for key, row in raw["requests"].items()},
        raw["seq"],
        _problems_of(raw["problems"]),
    )


def box_raw(box: Mailbox) -> dict[str, Any]:
    """A mailbox."""
    return {
        "entries": [[entry.id, entry.message.raw, entry.state] for entry in box.entries],
        "problems": _problems_raw(box.problems),
    }


def box_of(raw: dict[str, Any]) -> Mailbox:
    """The mailbox that `box_raw` wrote."""
    entries = tuple(
        Entry(message_id, Message.parse(row), cast("DeliveryState", state))
        for message_id, row, state in raw["entries"]
    )
    return Mailbox(entries, _problems_of(raw["problems"]))


def finding_raw(finding: Finding) -> list[Any]:
    """What a checkup found."""
    return [finding.kind, finding.where, finding.what, finding.fixed, finding.action]
