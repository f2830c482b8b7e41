"""Answers of a forge that it may later call unchanged, as far as there is room for them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

BYTES_MAX = 16 * 1024 * 1024
ENTRIES_MAX = 2_000


@dataclass(frozen=True, slots=True)
class Answer:
    """What a forge answered, and its name for exactly that content. Nobody changes the content."""

    content: Any
    etag: str


class KnownAnswers:
    """The answers that were used last. What does not fit is read anew."""

    def __init__(self, *, bytes_max: int = BYTES_MAX, entries_max: int = ENTRIES_MAX) -> None:
        self._bytes_max, self._entries_max = bytes_max, entries_max
        self._answers: OrderedDict[str, tuple[Answer, int]] = OrderedDict()
        self._bytes = 0

    def get(self, key: str) -> Answer | None:
        """Return a known answer."""
        found = self._answers.get(key)
        if found is None:
            return None
        self._answers.move_to_end(key)
        return found[0]

    def keep(self, key: str, answer: Answer, size: int) -> None:
        """Keep an answer, if the forge named its content, and forget the oldest ones."""
        old = self._answers.pop(key, None)
        if old is not None:
            self._bytes -= old[1]
        if not answer.etag or size > self._bytes_max:
            return
        self._answers[key] = answer, size
        self._bytes += size
        while self._bytes > self._bytes_max or len(self._answers) > self._entries_max:
            _, (_, gone) = self._answers.popitem(last=False)
            self._bytes -= gone
