"""What changes by nature from run to run: places, ids, times, ports. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_OPEN, _CLOSE = "⟦", "⟧"

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
_CHANGING: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?<=\(native, )(?:in-process|subprocess|tmux)(?=\))"), "backend"),
    (re.compile(rf"\b{_UUID}\b"), "id"),
    (re.compile(rf"\b{_TIME}"), "time"),
    (re.compile(r"\b\d\d:\d\d:\d\d(?:\.\d+)?\b"), "time"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|seconds?|s)\b"), "time"),
    (re.compile(r"(?<=127\.0\.0\.1:)\d+|(?<=localhost:)\d+"), "port"),
    (re.compile(r"(?<=/tmp/)[\w.-]+"), "folder"),
    (re.compile(r"(?<=pid )\d+|(?<=process )\d+", re.IGNORECASE), "pid"),
    (re.compile(r"\b(?:no|\d+) unread messages? (?:is|are)(?= ahead of it)"), "count"),
    (re.compile(r'(?<="ahead": )\d+'), "count"),
    (
        re.compile(r"(?<=My turn ended\. )I (?:am idle \(available\)|have more mail to read)"),
        "idle",
    ),
    (re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{7,40}\b"), "hash"),
)


@dataclass(frozen=True, slots=True)
class Places:
    """Where a run is: its project, its home and its team, by which tapes name places."""

    named: Mapping[str, str] = field(default_factory=dict)
    team: str = ""

    def marked(self, text: str) -> str:
        """A text with a mark in the place of each name of a place."""
        for name, value in self._by_length():
            text = text.replace(value, f"{_OPEN}{name}{_CLOSE}")
        if self.team:
            # It may also be a word of any text.
            where = rf"(?:(?<=team )|(?<=@)|(?<=/)){re.escape(self.team)}(?![\w-])"
            text = re.sub(where, f"{_OPEN}team{_CLOSE}", text)
        return text

    def unmarked(self, text: str) -> str:
        """A text with this run's places in the place of their marks."""
        if _OPEN in text:
            for name, value in [*self.named.items(), ("team", self.team)]:
                text = text.replace(f"{_OPEN}{name}{_CLOSE}", value)
        return text

    def normal(self, text: str) -> str:
        """A text without what changes by nature, to be compared."""
        text = self.marked(text)
        for pattern, name in _CHANGING:
            text = pattern.sub(f"{_OPEN}{name}{_CLOSE}", text)
        return text

    def _by_length(self) -> list[tuple[str, str]]:
        found = [(name, value) for name, value in self.named.items() if len(value) > 1]
        return sorted(found, key=lambda pair: len(pair[1]), reverse=True)
