"""Read Claude Code's own transcript as it grows: texts, tool calls and usage.

Rows are not always in order of time, and some come a moment after the turn has ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bullpen.agents.drivers.claude_code.team_copy import open_plain
from bullpen.protocol.agent import Usage

_SYNTHETIC = "<synthetic>"
_INTERRUPTED = "[Request interrupted by user"
_SETTLED = ("stop_hook_summary", "turn_duration")


@dataclass(frozen=True, slots=True)
class Answer:
    """One response of the model; the program writes one row for each of its blocks."""

    id: str
    at: str
    model: str
    text: str
    calls: tuple[str, ...]
    usage: Usage


@dataclass(slots=True)
class ClaudeTail:
    """The rows since it started to read. `path` may not exist yet."""

    path: Path | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    _offset: int = 0

    def skip(self, path: Path | None) -> None:
        """Read only what is added to this file from now on."""
        self.path, self.rows = path, []
        self._offset = path.stat().st_size if path is not None and path.exists() else 0

    def read(self) -> None:
        """Read the rows that are complete by now."""
        if self.path is None:
            return
        try:
            with open_plain(self.path) as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        self.rows += _objects(whole.splitlines())


def _objects(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            # Skip a line that cannot be parsed.
            continue
        if isinstance(row, dict):
            yield row


def time_of(row: dict[str, Any]) -> str:
    """When a row was written, as ISO text in UTC with milliseconds, so that texts compare."""
    return str(row.get("timestamp") or "")


def given_at(rows: Iterable[dict[str, Any]], mark: str) -> str | None:
    """When the program gave its model the text with this mark, if it did."""
    for row in rows:
        if row.get("type") == "user" and mark in _text(row):
            return time_of(row)
    return None


def answers(rows: Iterable[dict[str, Any]], since: str) -> list[Answer]:
    """The model's responses since then, oldest first, without API errors."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        message = row.get("message")
        if row.get("type") != "assistant" or not isinstance(message, dict):
            continue
        if row.get("isApiErrorMessage") or message.get("model") == _SYNTHETIC:
            continue
        if not row.get("isSidechain") and time_of(row) >= since:
            found.setdefault(str(message.get("id")), []).append(row)
    return sorted((_answer(key, parts) for key, parts in found.items()), key=lambda each: each.at)


def _answer(key: str, parts: list[dict[str, Any]]) -> Answer:
    blocks = [block for row in parts for block in _blocks(row)]
    message = parts[-1]["message"]
    return Answer(
        id=key,
        at=time_of(parts[0]),
        model=str(message.get("model")),
        text="\n\n".join(block["text"] for block in blocks if block.get("type") == "text"),
        calls=tuple(str(block.get("name")) for block in blocks if block.get("type") == "tool_use"),
        usage=_usage(message.get("usage") or {}),
    )


def _usage(told: dict[str, Any]) -> Usage:
    def count(name: str) -> int:
        value = told.get(name)
        return value if isinstance(value, int) else 0

    return Usage.new(
        requests=1,
        input_tokens=count("input_tokens"),
        output_tokens=count("output_tokens"),
        cache_read_tokens=count("cache_read_input_tokens"),
        cache_write_tokens=count("cache_creation_input_tokens"),
        # The transcript does not contain the cost.
        unpriced=1,
    )


def failure(rows: Iterable[dict[str, Any]], since: str) -> str | None:
    """The program's last message about a request that failed permanently, if any."""
    errors = [row for row in rows if row.get("isApiErrorMessage") and time_of(row) >= since]
    return _text(errors[-1]) if errors else None


def is_settled(rows: Iterable[dict[str, Any]], since: str) -> bool:
    """Whether the transcript has everything of a turn that started then."""
    return any(row.get("subtype") in _SETTLED and time_of(row) >= since for row in rows)


def was_interrupted(rows: Iterable[dict[str, Any]]) -> bool:
    """Whether the turn was interrupted."""
    return any(row.get("type") == "user" and _INTERRUPTED in _text(row) for row in rows)


def failed_results(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """The calls that failed, by id, with the text for the model."""
    for row in rows:
        for block in _blocks(row):
            if block.get("type") == "tool_result" and block.get("is_error"):
                yield str(block.get("tool_use_id")), _plain(block.get("content"))


def _blocks(row: dict[str, Any]) -> list[dict[str, Any]]:
    message = row.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []


def _text(row: dict[str, Any]) -> str:
    message = row.get("message")
    return _plain(message.get("content")) if isinstance(message, dict) else ""


def _plain(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [b.get("text") for b in blocks if isinstance(b, dict) and b.get("type") == "text"]
    return "\n".join(str(text) for text in texts)
