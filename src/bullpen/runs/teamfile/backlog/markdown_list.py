"""Reads the lists of a Markdown file as entries of a backlog. Pure.

An entry is a list item that is not inside another item: `- [ ] Text`, `- Text`, `* Text` or
`1. Text`. If any of them has a box, only items with an empty box are open. The indented lines below
an item are its description. The first line of an item can end with `(id: KEY)`, `(needs: A, B)`,
`(effort: large)` and `(after: KEY)`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from textwrap import dedent
from typing import Any

from bullpen.errors import Invalid
from bullpen.runs.teamfile.backlog.entries import (
    BacklogEntry,
    Fields,
    State,
    check_lines,
    fields_of,
    lines_in,
    wrong,
)
from bullpen.workspace.git.checkboxes import ticked_line

_ITEM = re.compile(r"(?P<indent> *)(?:[-*+]|\d{1,9}[.)])(?:\s+(?P<text>.*))?$")
_BOX = re.compile(r"\[(?P<mark>[ xX~/-])\](?:\s+|$)")
_FENCE = re.compile(r" *(?:>\s*)*(?P<mark>`{3,}(?!.*`)|~{3,})")
_HEADING = re.compile(r" {0,3}(?P<level>#{1,6})(?:\s+(?P<text>.*?))?(?:\s+#+)?\s*$")
_UNDERLINE = re.compile(r" {0,3}(?:(=+)|-+)\s*$")
_RULE = re.compile(r" {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$")
_INDENT = re.compile(r"[ \t]*\t[ \t]*(?=\S)")
_SAID = re.compile(r"\s*\((id|needs|effort|after):\s*([^()]*)\)\s*$", re.IGNORECASE)


def entries_of(text: str, where: str, heading: str | None = None) -> list[BacklogEntry]:
    """Return all entries of a file. With a heading, those not below it are elsewhere.

    Raises:
        Invalid: an item cannot be a task, a block is never closed, or there is no such heading.
    """
    lines = [_INDENT.sub(_spaces, line) for line in lines_in(text)]
    check_lines(lines, where)
    reading = _Reading(where, heading)
    reading.read(lines)
    return _entries(reading, where)


def ticked(text: str, key: str) -> str | None:
    """Return a file with the box of one item ticked and nothing else changed.

    None if there is no item with this key, or several, or its box is not empty.
    """
    reading = _Reading("", None)
    try:
        reading.read([_INDENT.sub(_spaces, line) for line in lines_in(text)])
    except Invalid:
        return None
    times: dict[str, int] = {}
    found = [item for item in reading.items if _parts(item, times)[0] == key]
    if len(found) != 1:
        return None
    lines = text.split("\n")
    at = found[0].number - 1
    start = "\ufeff" if lines[at].startswith("\ufeff") else ""
    line = ticked_line(lines[at].removeprefix(start))
    if line is None:
        return None
    return "\n".join([*lines[:at], start + line, *lines[at + 1 :]])


@dataclass(slots=True)
class _Item:
    number: int
    indent: int
    text: str
    is_read: bool
    below: list[str] = field(default_factory=list)


class _Reading:
    """Reads a file line by line."""

    def __init__(self, where: str, heading: str | None) -> None:
        self._where = where
        self._heading = heading
        self.items: list[_Item] = []
        self._item: _Item | None = None
        # The level of the heading that this part is below; None outside.
        self._inside: int | None = None if heading is not None else 0
        self._headings: list[str] = []
        self._before = ""

    def read(self, lines: Sequence[str]) -> None:
        """Read all lines. Raises Invalid."""
        number = _after_front_matter(lines)
        while number < len(lines):
            number = self._take(lines, number)
        wanted = self._heading
        if wanted is not None and not any(_same(wanted, each) for each in self._headings):
            known = ", ".join(map(repr, self._headings[:20])) or "none"
            raise wrong(self._where, f"there is no heading {wanted!r} (available: {known})")

    def _take(self, lines: Sequence[str], number: int) -> int:
        """Read one line, or a block of code or a comment. Returns the next line to read."""
        line = lines[number]
        end = _end_of_block(lines, number)
        if end is not None:
            if end > len(lines):
                raise wrong(f"{self._where}:{number + 1}", "this block is never closed")
            if self._item is not None and _indent(line) > self._item.indent + 1:
                self._item.below += lines[number:end]
            else:
                self._item = None
            self._before = ""
            return end
        self._before = line if self._line(line, number + 1) else ""
        return number + 1

    def _line(self, line: str, number: int) -> bool:
        """Read one line. Returns whether text right below it would belong to it."""
        if not line.strip():
            if self._item is not None:
                self._item.below.append("")
            return False
        if self._item is not None and _indent(line) > self._item.indent + 1:
            self._item.below.append(line)
        elif title := _HEADING.match(line):
            return self._begin_section(len(title["level"]), title["text"] or "")
        elif (under := _UNDERLINE.match(line)) and self._is_text_before():
            return self._begin_section(1 if under[1] else 2, self._before.strip())
        elif _RULE.match(line):
            self._item = None
            return False
        elif (found := _ITEM.match(line)) and _indent(line) <= 3:
            words = (found["text"] or "").strip()
            self._item = _Item(number, _indent(line), words, self._inside is not None)
            self.items.append(self._item)
        elif self._item is not None and self._before:
            # In Markdown, a line right below belongs to the item.
            self._item.below.append(line)
        else:
            self._item = None
        return True

    def _is_text_before(self) -> bool:
        return bool(self._before) and self._item is None

    def _begin_section(self, level: int, text: str) -> bool:
        self._item = None
        self._headings.append(text)
        if self._heading is not None and _same(self._heading, text):
            self._inside = level
        elif self._heading is not None and self._inside is not None and level <= self._inside:
            self._inside = None
        return False


def _entries(reading: _Reading, where: str) -> list[BacklogEntry]:
    boxes = [_BOX.match(item.text) for item in reading.items]
    boxed = any(box for item, box in zip(reading.items, boxes, strict=True) if item.is_read)
    times: dict[str, int] = {}
    entries = []
    for item, box in zip(reading.items, boxes, strict=True):
        place = f"{where}:{item.number}"
        key, words, said = _parts(item, times)
        state = _state(item, box, boxed)
        # Of an entry that is not open, only the name matters.
        fields = _fields(said, place) if state == "open" else Fields()
        entries.append(
            BacklogEntry(
                place,
                key,
                words,
                dedent("\n".join(item.below)).strip("\n").rstrip(),
                fields,
                state,
            )
        )
    return entries


def _parts(item: _Item, times: dict[str, int]) -> tuple[str, str, list[tuple[str, str]]]:
    """Return the key of an item, its text, and the fields behind it. `times` counts equal texts."""
    box = _BOX.match(item.text)
    words, said = _split(item.text[box.end() :] if box else item.text)
    key = next((value for name, value in said if name == "id" and value), None)
    return _digest(words, times) if key is None else key, words, said


def _state(item: _Item, box: re.Match[str] | None, boxed: bool) -> State:
    if not item.is_read:
        return "elsewhere"
    is_empty = box["mark"] == " " if box is not None else not boxed
    return "open" if is_empty else "closed"


def _split(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the text of an item, and the fields in brackets behind it."""
    said: list[tuple[str, str]] = []
    while found := _SAID.search(text):
        text = text[: found.start()]
        said.insert(0, (found[1].lower(), found[2].strip()))
    return text.strip(), said


def _fields(said: Sequence[tuple[str, str]], where: str) -> Fields:
    fields: dict[str, Any] = {}
    for key, value in said:
        if key in fields:
            raise wrong(where, f"{key} is given twice")
        if not value:
            raise wrong(where, f"{key} has no value")
        listed = [part.strip() for part in value.split(",") if part.strip()]
        fields[key] = listed if key in ("needs", "after") else value
    return fields_of(fields, where)


def _digest(words: str, times: dict[str, int]) -> str:
    """Return the key of an item without an id: a digest of its text, numbered if it repeats."""
    plain = " ".join(words.split()).casefold()
    times[plain] = times.get(plain, 0) + 1
    mark = hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return mark if times[plain] == 1 else f"{mark}-{times[plain]}"


def _same(heading: str, other: str) -> bool:
    return " ".join(heading.split()).casefold() == " ".join(other.split()).casefold()


def _spaces(indent: re.Match[str]) -> str:
    return indent[0].expandtabs(4) if indent.start() == 0 else indent[0]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _after_front_matter(lines: Sequence[str]) -> int:
    """Return the first line after the front matter, if there is any."""
    if lines and lines[0].rstrip() == "---":
        ends = (number for number, line in enumerate(lines[1:], 2) if line.rstrip() == "---")
        return next(ends, 0)
    return 0


def _end_of_block(lines: Sequence[str], number: int) -> int | None:
    """Return where the code block or comment that begins here ends; past the end if nowhere."""
    line = lines[number]
    if fence := _FENCE.match(line):
        closing = re.compile(rf"[\s>]*{re.escape(fence['mark'][0])}{{{len(fence['mark'])},}}\s*$")
        return _first(
            lines, number + 1, (bool(closing.match(each)) for each in lines[number + 1 :])
        )
    if line.lstrip().startswith("<!--"):
        return _first(lines, number, ("-->" in each for each in lines[number:]))
    return None


def _first(lines: Sequence[str], start: int, ends: Iterable[bool]) -> int:
    found: Iterator[int] = (start + index + 1 for index, ends_it in enumerate(ends) if ends_it)
    return next(found, len(lines) + 1)
