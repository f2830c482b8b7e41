"""Rules for what an owner answers to the words of a forge: by number, in its report. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

NOTHING_SAID = "The change is in the last push."
"""What is answered where the owner of the task wrote nothing."""

_NUMBERED = re.compile(r"^[ \t]*(?:[-*+][ \t]+)?\[(\d{1,4})\][ \t]*:?[ \t]*", re.MULTILINE)


def answers_in(report: str | None, numbers: Iterable[int]) -> Mapping[int, str]:
    """Return the answer to each number: what follows `[number]` at the start of a line.

    Where a report has no such line, all of it is the answer; where it has some, the others get the
    words that stand before the first.
    """
    text = report or ""
    found: dict[int, str] = {}
    starts = list(_NUMBERED.finditer(text))
    ends = [*(start.start() for start in starts), len(text)][1:]
    for start, end in zip(starts, ends, strict=True):
        said = text[start.end() : end].strip()
        if said:
            found.setdefault(int(start[1]), said)
    before = text[: starts[0].start()] if starts else text
    rest = before.strip() or NOTHING_SAID
    return {number: found.get(number, rest) for number in numbers}
