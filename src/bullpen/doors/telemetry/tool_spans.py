"""Tool calls in the transcripts on this machine, as spans of their turns. Pure."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bullpen.doors.telemetry import attribute_names as names
from bullpen.doors.telemetry.span_records import Attribute, SpanRecord
from bullpen.protocol import json_text
from bullpen.protocol.clock import ms_of

Rows = Sequence[dict[str, Any]]

_CONTENT_CHARS_MAX = 4000


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call, numbered within its transcript; `result` is None if there was none."""

    at_ms: int
    number: int
    name: str
    row: dict[str, Any]
    result: dict[str, Any] | None

    @property
    def failed(self) -> bool:
        return self.result is not None and bool(self.result.get("error"))


def calls_of(rows: Rows) -> list[ToolCall]:
    """The calls in a transcript by time; results belong to calls of the same name, in order."""
    waiting: dict[str, list[int]] = {}
    calls: list[tuple[dict[str, Any], dict[str, Any] | None]] = []
    for row in rows:
        kind, name = row.get("kind"), str(row.get("name", "?"))
        if kind == "tool":
            waiting.setdefault(name, []).append(len(calls))
            calls.append((row, None))
        elif kind == "result" and waiting.get(name):
            at = waiting[name].pop(0)
            calls[at] = (calls[at][0], row)
    found = [
        ToolCall(at_ms, number, str(call.get("name", "?")), call, result)
        for number, (call, result) in enumerate(calls)
        if (at_ms := _time(call)) is not None
    ]
    return sorted(found, key=lambda call: call.at_ms)


def tool_spans(
    turn: SpanRecord, calls: Sequence[ToolCall], *, content: bool
) -> Iterator[SpanRecord]:
    """The calls that began within a turn."""
    begin = bisect_left(calls, turn.from_ms, key=lambda call: call.at_ms)
    end = bisect_right(calls, turn.to_ms, key=lambda call: call.at_ms)
    for call in calls[begin:end]:
        result = call.result
        ended = None if result is None else _time(result)
        more: dict[str, Attribute] = {}
        if content:
            more[names.TOOL_INPUT] = _short(call.row.get("input"))
            if result is not None:
                more[names.TOOL_RESULT] = _short(result.get("text"))
        seed = f"{turn.span_id} tool {call.number} {call.name}".encode("utf-8", "surrogatepass")
        yield SpanRecord(
            name=f"{names.EXECUTE_TOOL} {call.name}",
            trace_id=turn.trace_id,
            span_id=hashlib.sha256(seed).hexdigest()[:16],
            parent_id=turn.span_id,
            from_ms=call.at_ms,
            to_ms=max(call.at_ms, turn.to_ms if ended is None else ended),
            attributes={
                names.OPERATION: names.EXECUTE_TOOL,
                names.TOOL_NAME: call.name,
                names.AGENT_NAME: turn.attributes[names.AGENT_NAME],
                names.TEAM: turn.attributes[names.TEAM],
                **more,
            },
            error="tool_error" if call.failed else "no_result" if result is None else None,
        )


def _time(row: dict[str, Any]) -> int | None:
    time = row.get("time")
    return ms_of(time) if isinstance(time, str) else None


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json_text.dumps_line(value).decode()
    return text[:_CONTENT_CHARS_MAX]
