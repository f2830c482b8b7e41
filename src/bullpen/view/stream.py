"""What one member says and does, as a person wants to see it while it works. Pure.

The rows of its transcript become items: words, tool calls with what came of them, mail, notes.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from bullpen.protocol import json_text
from bullpen.protocol.clock import ms_of
from bullpen.protocol.names import LEAD
from bullpen.view.calls.call_diff import WHOLE_FILE, call_diff
from bullpen.view.calls.call_line import call_line
from bullpen.view.calls.call_outcome import call_outcome, first_words, output_of
from bullpen.view.diff import FileDiff
from bullpen.view.text import one_line, visible

Kind = Literal["words", "call", "mail", "note", "trouble"]
CallState = Literal["open", "ok", "failed", "denied"]

ITEMS_MAX = 2_000
"""How many items are kept."""

_DROPPED_AT_ONCE = 200
_BODY_CHARS_MAX = 20_000
_CALLS_SEARCHED = 64

_FRAME = re.compile(
    r'<teammate-message teammate_id="([^"]*)"[^>]*>\n(.*?)\n</teammate-message>', re.DOTALL
)
_USER = re.compile(r"(?:\A|\n\n)Your user says:\n")
_TO_ANSWER = re.compile(r"\n\n(?:To [a-z ]+: SendMessage\(.*\)\n?)+\Z")
_IDLE = re.compile(
    r"My turn ended\.(?: I am idle \([^)\n]*\)\.| I have more mail to read\.)"
    r"(?:\n(?:Task #[^\n]*|Messages I sent: [^\n]*))*(?:\n\n|\Z)"
)
"""What a program adds to the report of an idle teammate."""

_INTERNAL = ("Told the whole briefing again", "The model is ")
"""How notes begin that are of interest to nobody who watches."""

_INTERRUPTED = {
    "cancel": "Interrupted",
    "pause": "Paused",
    "stop": "Stopped during its turn",
    "limit": "Reached its limit during its turn",
    "task": "The budget of its task is used up",
}
_ORDERS = {
    "cancel": "Interrupted",
    "pause": "Paused",
    "resume": "Resumed",
    "stop": "Asked to stop",
}


@dataclass(frozen=True, slots=True)
class StreamItem:
    """One thing to show.

    `aside` is a short text beside it, such as `+24 -3`. `body` is everything there is to see of it:
    for a call, its input and its result.
    """

    key: str
    at_ms: int | None
    kind: Kind
    text: str
    sender: str | None = None
    aside: str = ""
    state: CallState = "ok"
    body: str = ""
    diff: FileDiff | None = None


@dataclass(slots=True)
class _OpenCall:
    """A call without a result: the key of its item, and its input."""

    key: str
    name: str
    given: Any
    why: str | None = None


class Stream:
    """The items of one member. `cwd` is its directory: paths below it are shown from there."""

    def __init__(self, shown_name: Callable[[str], str], *, cwd: str | None = None) -> None:
        self.items: list[StreamItem] = []
        self.cwd = cwd
        self._shown_name = shown_name
        self._open: list[_OpenCall] = []
        self._words: list[str] = []
        self._turn_ms: int | None = None
        self._ordered: str | None = None
        self._last_ms: int | None = None
        self._same_ms = 0
        self._first_change: int | None = None

    def take(self, rows: Iterable[Mapping[str, Any]]) -> int | None:
        """Add rows; returns the index of the first item that changed or is new, if any.

        A result changes the item of its call. Items that are dropped change every index: then it
        is 0.
        """
        self._first_change = None
        for row in rows:
            self._row(row)
            if len(self.items) > ITEMS_MAX:
                del self.items[:_DROPPED_AT_ONCE]
                self._first_change = 0
        return self._first_change

    def _row(self, row: Mapping[str, Any]) -> None:
        at_ms = _time(row)
        match row.get("kind"):
            case "text":
                self._say(_text(row), at_ms)
            case "tool":
                self._call(str(row.get("name") or "?"), row.get("input"), at_ms)
            case "result":
                self._result(row, at_ms)
            case "denied":
                self._denied(row, at_ms)
            case "mail":
                self._mail(row, at_ms)
            case "turn":
                self._words, self._turn_ms, self._ordered = [], at_ms, None
            case "end":
                self._turn_ended(row, at_ms)
            case "ready" | "ended":
                self._lived(row, at_ms)
            case "order" | "mode" | "plan" | "hook" | "check" | "handed_in" | "kept" | "note":
                self._note(row, at_ms)
            case "trouble" | "damaged":
                self._add("trouble", at_ms, _text(row))

    def _add(self, kind: Kind, at_ms: int | None, text: str, **more: Any) -> StreamItem:
        body = more.pop("body", "")
        item = StreamItem(self._key(at_ms), at_ms, kind, visible(text), body=_bounded(body), **more)
        self._changed(len(self.items))
        self.items.append(item)
        return item

    def _key(self, at_ms: int | None) -> str:
        """A key that is the same when the transcript is read again, perhaps from another row."""
        self._same_ms = self._same_ms + 1 if at_ms == self._last_ms else 0
        self._last_ms = at_ms
        return f"{at_ms or 0}-{self._same_ms}"

    def _changed(self, index: int) -> None:
        if self._first_change is None or index < self._first_change:
            self._first_change = index

    def _say(self, text: str, at_ms: int | None) -> None:
        if text.strip():
            self._words.append(text)
            self._add("words", at_ms, _bounded(text.strip("\n")))

    def _call(self, name: str, given: Any, at_ms: int | None) -> None:
        given = _parsed(given)
        early = next((call for call in self._open if call.given is _UNKNOWN), None)
        if early is not None and early.name == name:
            # It was denied before the program told of it.
            early.given = given
            self._replace(early.key, body=_bounded(_in_words(given)))
            return
        diff = call_diff(name, given, cwd=self.cwd)
        item = self._add(
            "call",
            at_ms,
            self._call_line(name, given),
            state="open",
            aside="" if diff is None else _counts(diff),
            body=_in_words(given),
            diff=diff,
        )
        self._open.append(_OpenCall(item.key, name, given))
        del self._open[:-_CALLS_SEARCHED]

    def _call_line(self, name: str, given: Any) -> str:
        line, to_lead = call_line(name, given, cwd=self.cwd), f"{name} {LEAD}"
        if name == "SendMessage" and line.startswith(to_lead):
            return f"{name} {self._shown_name(LEAD)}{line.removeprefix(to_lead)}"
        return line

    def _result(self, row: Mapping[str, Any], at_ms: int | None) -> None:
        name, text, failed = str(row.get("name") or "?"), _text(row), bool(row.get("error"))
        call = next((each for each in self._open if each.name == name), None)
        if call is None:
            # Its call is before the first row that was read.
            self._add(
                "call", at_ms, name, state="failed" if failed else "ok", body=text,
                aside=call_outcome(name, output_of(text), failed=failed),
            )  # fmt: skip
            return
        self._open.remove(call)
        output = output_of(text)
        given = _in_words(call.given)
        body = f"{given}\n\n{output}" if given else output
        if call.why is not None:
            self._replace(call.key, body=_bounded(body))
            return
        diff = None if failed else call_diff(call.name, call.given, text, cwd=self.cwd)
        aside = call_outcome(name, output, failed=failed) if diff is None else _counts(diff)
        self._replace(
            call.key,
            state="failed" if failed else "ok", aside=aside, body=_bounded(body), diff=diff,
        )  # fmt: skip

    def _denied(self, row: Mapping[str, Any], at_ms: int | None) -> None:
        tool, why = str(row.get("tool") or "?"), _string(row.get("why")) or "no reason was given"
        # What the agent is told about its user is shown to that user.
        aside = f"denied: {re.sub('^your user denied', 'you denied', one_line(why))}"
        # Of several open calls the last one is decided about.
        call = next((each for each in reversed(self._open) if each.name == tool), None)
        if call is not None:
            call.why = why
            self._replace(call.key, state="denied", aside=aside)
            return
        line = one_line(f"{tool} {_string(row.get('detail'))}".rstrip())
        item = self._add("call", at_ms, line, state="denied", aside=aside)
        self._open.append(_OpenCall(item.key, tool, _UNKNOWN, why))

    def _replace(self, key: str, **changes: Any) -> None:
        for index in range(len(self.items) - 1, -1, -1):
            if self.items[index].key == key:
                self.items[index] = replace(self.items[index], **changes)
                self._changed(index)
                return

    def _mail(self, row: Mapping[str, Any], at_ms: int | None) -> None:
        text = _text(row)
        frames = _FRAME.findall(text)
        own = text
        if frames:
            # A notice about mail of teammates follows the words of the user.
            own = text[: text.find("<teammate-message ")].rstrip().rpartition("\n\n")[0]
        for words in _USER.split(own)[1:]:
            self._add("mail", at_ms, _bounded(words.strip("\n")), sender="you")
        voices = row.get("voices")
        voices = voices[-len(frames) :] if isinstance(voices, list) and frames else []
        for index, (name, body) in enumerate(frames):
            by_a_person = index < len(voices) and voices[index] == "human"
            sender = "you" if by_a_person else one_line(self._shown_name(html.unescape(name)))
            report = _IDLE.match(body)
            words = _TO_ANSWER.sub("", body) if report is None else body[report.end() :]
            if words.strip():
                self._add("mail", at_ms, _bounded(words), sender=sender)
            else:
                self._add("note", at_ms, f"{sender} is idle")

    def _turn_ended(self, row: Mapping[str, Any], at_ms: int | None) -> None:
        text = _string(row.get("text"))
        if text.strip() and _flat(text) not in _flat("\n".join(self._words)):
            self._say(text, at_ms)
        failure, interrupted = _string(row.get("failure")), row.get("interrupted")
        self._close_calls("interrupted" if isinstance(interrupted, str) else "no result")
        aside = _duration(self._turn_ms, at_ms)
        if failure:
            self._add("trouble", at_ms, f"The turn failed: {failure}", aside=aside)
        elif isinstance(interrupted, str):
            if self._ordered != interrupted:
                self._add("note", at_ms, _INTERRUPTED.get(interrupted, interrupted), aside=aside)
        else:
            self._add("note", at_ms, "Turn ended", aside=aside)
        self._words, self._turn_ms, self._ordered = [], None, None

    def _lived(self, row: Mapping[str, Any], at_ms: int | None) -> None:
        self._close_calls()
        if row.get("kind") == "ready":
            again = isinstance(row.get("launch"), int) and row["launch"] > 1
            self._add("note", at_ms, "Started again" if again else "Started")
            return
        end, cause = _string(row.get("end")) or "ended", _string(row.get("cause"))
        kind: Kind = "trouble" if end in ("failed", "lost") else "note"
        self._add(kind, at_ms, f"{end.capitalize()}: {cause}" if cause else end.capitalize())

    def _close_calls(self, why: str = "no result") -> None:
        """No result comes any more for calls that are still open."""
        for call in self._open:
            if call.why is None:
                self._replace(call.key, state="failed", aside=why)
        self._open.clear()

    def _note(self, row: Mapping[str, Any], at_ms: int | None) -> None:
        kind, text = row.get("kind"), _text(row)
        match kind:
            case "order":
                action, reason = str(row.get("action")), _string(row.get("reason"))
                by = self._shown_name(_string(row.get("sender")) or "?")
                by = "you" if row.get("voice") == "human" else one_line(by)
                self._ordered = action
                said = _ORDERS.get(action, action)
                self._add("note", at_ms, f"{said}: {reason}" if reason else f"{said} by {by}")
            case "mode":
                self._add("note", at_ms, f"Mode: {row.get('before')} → {row.get('mode')}")
            case "plan":
                self._add("note", at_ms, _plan(row))
            case "check":
                passed = row.get("passed") is not False
                said = f"Check {row.get('name')} of #{row.get('task')}"
                state: CallState = "ok" if passed else "failed"
                said += " passed" if passed else " failed"
                self._add("note", at_ms, one_line(said), state=state, body=text)
            case "handed_in":
                said = text or f"{row.get('commit')}"[:7]
                self._add("note", at_ms, f"Task #{row.get('task')}: {said}")
            case "hook":
                about = " ".join(_string(row.get(key)) for key in ("event", "effect"))
                self._add("note", at_ms, f"Hook {about.strip()}: {first_words(text)}", body=text)
            case _ if text.strip() and not text.startswith(_INTERNAL):
                more = text if "\n" in text.strip() else ""
                self._add("note", at_ms, text.strip().split("\n")[0], body=more)


_UNKNOWN = object()
"""The input of a call that was denied before the transcript has it."""


def _counts(diff: FileDiff) -> str:
    """How much a call changes. Of a file that it overwrites, nobody knows what was there."""
    if diff.note != WHOLE_FILE:
        return diff.counts
    return f"{diff.added} lines" if diff.added != 1 else "1 line"


def _plan(row: Mapping[str, Any]) -> str:
    state, feedback = _string(row.get("state")), _string(row.get("feedback"))
    said = {
        "entered": "Planning: nothing is changed until the plan is approved",
        "submitted": "Plan submitted for approval",
    }.get(state, f"Plan {state}")
    if state == "approved" and row.get("mode"):
        said += f", mode {row['mode']}"
    return f"{said}: {feedback}" if feedback else said


def _text(row: Mapping[str, Any]) -> str:
    return _string(row.get("text"))


def _string(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text.dumps_line(value).decode()


def _time(row: Mapping[str, Any]) -> int | None:
    time = row.get("time")
    return ms_of(time) if isinstance(time, str) else None


def _parsed(given: Any) -> Any:
    """The input of a call: some models give it as JSON text."""
    if not isinstance(given, str) or not given.startswith("{"):
        return given
    try:
        return json_text.loads(given.encode())
    except ValueError:
        return given


def _in_words(given: Any) -> str:
    """The whole input of a call, a field a line."""
    if given is _UNKNOWN or given in (None, "", {}):
        return ""
    if not isinstance(given, Mapping):
        return _string(given)
    if isinstance(given.get("command"), str):
        rest = {key: value for key, value in given.items() if key != "command"}
        return "\n".join([f"$ {given['command']}", *_fields(rest)])
    return "\n".join(_fields(given))


def _fields(given: Mapping[str, Any]) -> list[str]:
    lines = []
    for key, value in given.items():
        text = _string(value)
        lines.append(f"{key}:\n{text}" if "\n" in text else f"{key}: {text}")
    return lines


def _bounded(text: str) -> str:
    if len(text) > _BODY_CHARS_MAX:
        more = len(text) - _BODY_CHARS_MAX
        text = f"{text[:_BODY_CHARS_MAX]}…\n({more} more characters)"
    return visible(text)


def _flat(text: str) -> str:
    return " ".join(text.split())


def _duration(began_ms: int | None, ended_ms: int | None) -> str:
    if began_ms is None or ended_ms is None or ended_ms < began_ms:
        return ""
    seconds = (ended_ms - began_ms) // 1000
    if seconds == 0:
        return ""
    return f"{seconds} s" if seconds < 60 else f"{seconds // 60} min {seconds % 60} s"
