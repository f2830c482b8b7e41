"""A tape as text: one JSON object per line. Pure.

The first line is the header. Then come the calls in the order of their answers, what a person did,
and how the run ended. A tape comes from anywhere: nothing of it is obeyed, but for the answers of
models, in a run with the usual permissions.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bullpen.agents.tapes.requests import Asked
from bullpen.errors import Invalid

FORMAT = 1
TAPE_BYTES_MAX = 64_000_000
LINE_BYTES_MAX = 8_000_000
LINES_MAX = 50_000
"""The longest tape that is read. A night of a large team has less."""

DEPTH_MAX = 60
"""How deep the JSON of a line may be."""

READY = "ready"
"""What happens when an agent has started. Messages to it are refused before."""

_REMEDY = "Record the run again with this version: bullpen run GOAL --record FILE"


@dataclass(frozen=True, slots=True)
class Header:
    """What was run, and how."""

    team: str
    goal: str | None
    # The team file, by its path in the project, and its text.
    team_file: str | None = None
    team_text: str | None = None
    # What `bullpen run` was told of its lead.
    lead: Mapping[str, Any] = field(default_factory=dict)
    delegate: bool = False
    attended: bool = False
    conversation: bool = False
    # The commit of the project, and whether there were changes besides.
    base: str | None = None
    dirty: bool = False
    bullpen: str = ""
    begun_ms: int = 0


@dataclass(frozen=True, slots=True)
class TapedCall:
    """One request of an agent, and its answer or why it failed. Times since the run began."""

    agent: str
    stream: str
    number: int
    asked: Asked
    model: str
    window: int
    asked_ms: int
    answered_ms: int
    # Whether it is the first of a turn.
    begins: bool = False
    said: Mapping[str, Any] | None = None
    failed: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class PersonAct:
    """What a person did: wrote, answered a request, interrupted, changed a mode, ended the run."""

    act: str
    at_ms: int
    to: str = ""
    text: str | None = None
    # Of an answer: the kind of what was asked, and its words.
    about: str = ""
    asked: str = ""
    approve: bool = False
    answer: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tape:
    """A whole tape."""

    header: Header
    calls: tuple[TapedCall, ...]
    acts: tuple[PersonAct, ...] = ()
    # Which agents were ready when.
    ready: tuple[tuple[str, int], ...] = ()
    status: str | None = None

    @property
    def agents(self) -> frozenset[str]:
        """Who called a model."""
        return frozenset(call.agent for call in self.calls)

    def call(self, agent: str, stream: str, number: int) -> TapedCall | None:
        """One call of an agent, by its number in its stream."""
        return next(
            (
                call
                for call in self.calls
                if (call.agent, call.stream, call.number) == (agent, stream, number)
            ),
            None,
        )

    def changed(self, change: Callable[[str], str]) -> Tape:
        """The tape with the texts of all requests changed."""
        calls = (replace(call, asked=call.asked.changed(change)) for call in self.calls)
        return replace(self, calls=tuple(calls))

    def before(self, at_ms: int) -> frozenset[tuple[str, str, int]]:
        """What had happened by then: which calls were answered, and which agents were ready."""
        calls = {key(call) for call in self.calls if call.answered_ms < at_ms}
        started = Counter(agent for agent, ready_ms in self.ready if ready_ms < at_ms)
        return frozenset(calls | {(name, READY, count) for name, count in started.items()})


def key(call: TapedCall) -> tuple[str, str, int]:
    """What identifies a call on its tape."""
    return call.agent, call.stream, call.number


def header_line(header: Header) -> str:
    """The first line of a tape."""
    return _line({"kind": "header", "format": FORMAT, **_stated(header)})


def call_line(call: TapedCall, before: Asked | None) -> str:
    """The line of a call; what is as in the call before it in its stream is left out."""
    asked = call.asked.since(before)
    return _line({"kind": "call", **_stated(call), "asked": asked})


def act_line(act: PersonAct) -> str:
    """The line of what a person did."""
    return _line({"kind": "person", **_stated(act)})


def ready_line(agent: str, at_ms: int) -> str:
    """The line that says that an agent was ready."""
    return _line({"kind": READY, "agent": agent, "at_ms": at_ms})


def end_line(status: str) -> str:
    """The line that says how a run ended."""
    return _line({"kind": "end", "status": status})


def parsed(raw: bytes, *, name: str) -> Tape:
    """The tape in these bytes. Raises Invalid, naming the line.

    The last line may be missing its end: the run was killed while it was written.
    """
    lines = raw.split(b"\n")
    if len(raw) > TAPE_BYTES_MAX or len(lines) > LINES_MAX:
        raise Invalid(
            f"{name} is too long for a tape: more than {TAPE_BYTES_MAX // 1_000_000} MB or"
            f" {LINES_MAX:,} lines.",
            remedy=_REMEDY,
        )
    rows: list[tuple[int, dict[str, Any]]] = []
    for number, line in enumerate(lines[:-1], 1):
        rows.append((number, _row(line, number, name)))
    if not rows or rows[0][1].get("kind") != "header":
        raise Invalid(f"{name} is not a tape: its first line is no header.", remedy=_REMEDY)
    if rows[0][1].get("format") != FORMAT:
        told = str(rows[0][1].get("format"))[:20]
        raise Invalid(
            f"{name} is a tape of the format {told}, and this version reads {FORMAT}.",
            remedy=_REMEDY,
        )
    return _tape(rows, name)


def _tape(rows: Sequence[tuple[int, dict[str, Any]]], name: str) -> Tape:
    calls: list[TapedCall] = []
    acts: list[PersonAct] = []
    ready: list[tuple[str, int]] = []
    last: dict[tuple[str, str], Asked] = {}
    status = None
    header = _header(rows[0][1], name)
    for number, row in rows[1:]:
        try:
            match row.get("kind"):
                case "call":
                    call = _call(row, last)
                    last[call.agent, call.stream] = call.asked
                    calls.append(call)
                case "person":
                    acts.append(_act(row))
                case "ready":
                    ready.append((_text(row, "agent"), _number(row, "at_ms")))
                case "end":
                    status = _text(row, "status")
                case _:
                    # Of a newer version.
                    pass
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _damaged(name, number, repr(error)) from None
    in_order = tuple(sorted(acts, key=lambda act: act.at_ms))
    return Tape(header, tuple(calls), in_order, tuple(ready), status)


def _row(line: bytes, number: int, name: str) -> dict[str, Any]:
    if len(line) > LINE_BYTES_MAX:
        raise _damaged(name, number, f"it has more than {LINE_BYTES_MAX:,} bytes")
    try:
        row = json.loads(line)
        if not isinstance(row, dict):
            raise ValueError("it is no JSON object")
        _check_depth(row, DEPTH_MAX)
    except (ValueError, RecursionError) as error:
        raise _damaged(name, number, str(error)[:200]) from None
    return row


def _check_depth(value: Any, left: int) -> None:
    if left < 0:
        raise ValueError("it is nested too deeply")
    below: Iterable[Any] = ()
    if isinstance(value, dict):
        below = value.values()
    elif isinstance(value, list):
        below = value
    for each in below:
        _check_depth(each, left - 1)


def _header(row: Mapping[str, Any], name: str) -> Header:
    try:
        lead = row.get("lead", {})
        if not isinstance(lead, dict):
            raise TypeError("lead")
        return Header(
            _text(row, "team"),
            _maybe(row, "goal"),
            team_file=_maybe(row, "team_file"),
            team_text=_maybe(row, "team_text"),
            lead=lead,
            delegate=_yes(row, "delegate"),
            attended=_yes(row, "attended"),
            conversation=_yes(row, "conversation"),
            base=_maybe(row, "base"),
            dirty=_yes(row, "dirty"),
            bullpen=_maybe(row, "bullpen") or "",
            begun_ms=_number(row, "begun_ms"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(name, 1, repr(error)) from None


def _call(row: Mapping[str, Any], last: Mapping[tuple[str, str], Asked]) -> TapedCall:
    agent, stream = _text(row, "agent"), _text(row, "stream")
    said, failed = row.get("said"), row.get("failed")
    if not (isinstance(said, dict) or (said is None and isinstance(failed, dict))):
        raise ValueError("neither an answer nor a failure")
    return TapedCall(
        agent,
        stream,
        _number(row, "number"),
        Asked.of(row["asked"], last.get((agent, stream))),
        model=_text(row, "model"),
        window=_number(row, "window"),
        asked_ms=_number(row, "asked_ms"),
        answered_ms=_number(row, "answered_ms"),
        begins=_yes(row, "begins"),
        said=said,
        failed=None if failed is None else {str(k): str(v) for k, v in failed.items()},
    )


def _act(row: Mapping[str, Any]) -> PersonAct:
    answer = row.get("answer", {})
    if not isinstance(answer, dict):
        raise TypeError("answer")
    return PersonAct(
        _text(row, "act"),
        _number(row, "at_ms"),
        to=_maybe(row, "to") or "",
        text=_maybe(row, "text"),
        about=_maybe(row, "about") or "",
        asked=_maybe(row, "asked") or "",
        approve=_yes(row, "approve"),
        answer=answer,
    )


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row[name]
    if not isinstance(value, str):
        raise TypeError(name)
    return value


def _maybe(row: Mapping[str, Any], name: str) -> str | None:
    return None if row.get(name) is None else _text(row, name)


def _number(row: Mapping[str, Any], name: str) -> int:
    value = row[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(name)
    return value


def _yes(row: Mapping[str, Any], name: str) -> bool:
    return row.get(name) is True


def _stated(record: Any) -> dict[str, Any]:
    """The fields of a record that say something."""
    found = {name: getattr(record, name) for name in record.__slots__}
    return {
        name: value
        for name, value in found.items()
        if value is not None and value is not False and value not in ("", {})
    }


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n"


def _damaged(name: str, number: int, why: str) -> Invalid:
    return Invalid(f"Line {number} of the tape {name} is damaged: {why}.", remedy=_REMEDY)
