"""Reads the transcript of an agent as it grows, and puts its rows into words."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from bullpen.agents.system.transcript import row_of
from bullpen.protocol import json_text
from bullpen.protocol.agent import Usage
from bullpen.protocol.names import LEAD
from bullpen.team.requests.handles import with_short_ids
from bullpen.view import agent_words as words
from bullpen.view.news import YOU

STYLES = {
    "turn": "strong",
    "mail": "attention",
    "tool": "cyan",
    "result": "muted",
    "usage": "muted",
    "request": "muted",
    "read": "muted",
    "state": "muted",
    "note": "attention",
    "trouble": "bad",
    "order": "attention",
    "denied": "bad",
    "permitted": "good",
    "plan": "attention",
    "hook": "attention",
    "damaged": "bad",
}
_SHOWN_CHARACTERS_MAX = 200
_AS_WRITTEN = frozenset({"tool", "result", "text", "mail", "turn", "request"})
"""What models, tools and members said, which is shown as they said it."""

_ELSEWHERE = frozenset({"time", "kind", "ids", "waited_ms", "voices", "born", "format"})
"""Shown before the text, or useful to programs only."""


class TranscriptTail:
    """Reads new rows of a file of JSON lines. An incomplete line is left for the next time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._inode: int | None = None

    @property
    def begun(self) -> bool:
        return self._path.exists()

    def last(self, count: int | None) -> list[dict[str, Any]]:
        """The last `count` rows, or all, with an incomplete one at the end."""
        return list(deque(self._read(whole=False), maxlen=count))

    def more(self) -> list[dict[str, Any]]:
        """The new rows. Empty while the file does not exist."""
        return list(self._read(whole=True))

    def _read(self, *, whole: bool) -> Iterator[dict[str, Any]]:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return
        if found.st_ino != self._inode or found.st_size < self._offset:
            self._inode, self._offset = found.st_ino, 0
        if found.st_size == self._offset:
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if whole and not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                if line.strip():
                    yield row_of(line)


def said(row: dict[str, Any]) -> str:
    """The text of a row, on one or more lines; unknown facts are added as they are."""
    text = _said(row)
    return text if row.get("kind") in _AS_WRITTEN else with_short_ids(text)


def _said(row: dict[str, Any]) -> str:
    facts = {
        key: value for key, value in row.items() if key not in _ELSEWHERE and value is not None
    }
    match row.get("kind"):
        case "tool":
            name, given = facts.pop("name", "?"), facts.pop("input", None)
            return _with(f"{name}{_input(given)}", facts)
        case "result":
            error = "failed: " if facts.pop("error", False) else ""
            name, text = facts.pop("name", "?"), _text(facts.pop("text", ""))
            return _with(f"{name} {error}{text}".rstrip(), facts)
        case "usage":
            return _usage(facts)
        case "turn" if "number" in facts:
            text = _text(facts.pop("text", ""))
            return "\n".join(
                part for part in (_text(facts.pop("number")), _facts(facts), text) if part
            )
        case "ended" if isinstance(facts.get("end"), str):
            cause = facts.pop("cause", None)
            return _with(facts.pop("end") + (f": {cause}" if cause else ""), facts)
        case "ready" if "driver" in facts:
            launch = facts.pop("launch", 1)
            again = f", start {launch}" if launch != 1 else ""
            return _with(f"driver {_text(facts.pop('driver'))}{again}", facts)
        case "end" if "number" in facts:
            turn, text = f"turn {_text(facts.pop('number'))}", facts.pop("text", None)
            return "\n".join(filter(None, [_with(turn, facts), text]))
        case "request" if "messages" in facts:
            return _request(facts)
        case "denied" | "permitted" | "plan" | "hook" as kind:
            return _governed(kind, facts)
        case _:
            return _plain(facts)


def _request(facts: dict[str, Any]) -> str:
    """A request to the model: how long the conversation is, and how long the answer took."""
    facts.pop("mail", None)
    number, seconds = _text(facts.pop("messages")), facts.pop("seconds", None)
    said = [
        _text(facts.pop("model", None) or "the model"),
        f"{number} message{'' if number == '1' else 's'}",
    ]
    said += [f"{seconds:.1f} s"] if isinstance(seconds, int | float) else []
    said += ["for a summary"] if facts.pop("summary", False) else []
    return _with(", ".join(said), facts)


def _governed(kind: str, facts: dict[str, Any]) -> str:
    """A decision about a call or a plan, or by a hook."""
    about = " ".join(_text(facts.pop(key)) for key in ("tool", "detail") if key in facts)
    match kind:
        case "denied":
            return _with(f"{about}: {_text(facts.pop('why', ''))}", facts)
        case "permitted":
            by, request = (
                _who(facts.pop("by", None), facts.pop("voice", None)),
                facts.pop("request", ""),
            )
            return _with(f"{about}, by {by or 'nobody'} ({_text(request)})", facts)
        case "plan":
            said = [_text(facts.pop("state", "?"))]
            said += [f"({facts.pop('request')})"] if "request" in facts else []
            mode = facts.pop("mode", None)
            # Without approval, the agent is still in plan mode.
            said += [f"mode {mode}"] if mode and said[0] == "approved" else []
            more = [_text(facts.pop(key)) for key in ("feedback", "path") if key in facts]
            return _with("\n".join([" ".join(said), *more]), facts)
        case _:
            head = [_text(facts.pop(key)) for key in ("event", "effect") if key in facts]
            head += [about] if about else []
            text = _text(facts.pop("text", ""))
            return _with(f"{' '.join(head)}: {text}".rstrip(": "), facts)


def _who(name: Any, voice: Any) -> Any:
    """Who allowed a call: a person in the name of the lead is you."""
    if voice == "policy":
        return "a rule"
    return YOU if voice == "human" and name == LEAD else name


def _plain(facts: dict[str, Any]) -> str:
    """A row with short facts first, then its text."""
    text = facts.pop("text", "")
    text = text if isinstance(text, str) else _text(text)
    about = _facts(facts)
    return f"{about}\n{text}" if about and "\n" in text else f"{about} {text}".strip()


def _usage(facts: dict[str, Any]) -> str:
    try:
        usage = Usage.parse(facts.get("usage", facts))
    except ValueError:
        return _facts(facts)
    if not (usage.input_tokens or usage.output_tokens or usage.cost_usd or usage.unpriced):
        return ""
    cached = f", {usage.cache_read_tokens} from the cache" if usage.cache_read_tokens else ""
    return (
        f"{usage.input_tokens} tokens in{cached}, {usage.output_tokens} out, {words.money(usage)}"
    )


def _input(given: Any) -> str:
    """The input of a tool; of a single field, only its value."""
    if not isinstance(given, dict):
        return f": {_text(given)}" if given else ""
    if len(given) == 1:
        return f": {_text(next(iter(given.values())))}"
    return f": {_facts(given)}" if given else ""


def _with(text: str, facts: dict[str, Any]) -> str:
    return f"{text}\n{_facts(facts)}" if facts else text


def _facts(facts: dict[str, Any]) -> str:
    return " ".join(f"{key}={_short(_text(value))}" for key, value in facts.items())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json_text.dumps_line(value).decode()


def _short(text: str) -> str:
    if len(text) <= _SHOWN_CHARACTERS_MAX:
        return text
    return f"{text[:_SHOWN_CHARACTERS_MAX]}… ({len(text)} characters)"


def moment(time: Any) -> tuple[str, str]:
    """The local date and time of day; empty if they cannot be read."""
    try:
        moment = datetime.fromisoformat(time).astimezone()
    except (TypeError, ValueError, OverflowError, OSError):
        return "", ""
    return moment.strftime("%Y-%m-%d"), moment.strftime("%H:%M:%S")
