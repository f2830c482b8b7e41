"""Change one entry of another program's JSON file without touching any other byte.

The parser keeps the position of every value, and accepts comments where the program does. Only the
changed part of the text is replaced; the rest is never rewritten.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORDS = {"true": True, "false": False, "null": None}
_INDENT = "  "


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a program accepts in addition to strict JSON."""

    comments: bool = False
    trailing_commas: bool = False


@dataclass(frozen=True, slots=True)
class _Value:
    """A value and its position in the text."""

    start: int
    end: int
    value: Any
    members: tuple[_Member, ...] = ()


@dataclass(frozen=True, slots=True)
class _Member:
    """A key with its value. `comma` is the position of the comma after it, if any."""

    key: str
    start: int
    value: _Value
    comma: int | None = field(default=None)

    @property
    def end(self) -> int:
        return self.value.end if self.comma is None else self.comma + 1


def lookup(text: str, path: Sequence[str], dialect: Dialect) -> Any:
    """The value at this path of keys, the whole value without keys; None if there is none.

    Raises:
        ValueError: it is not JSON, or one of the keys does not hold an object.
    """
    root = _read(text, dialect)
    found = _find(root, path)
    return root.value if not path else None if found is None else found.value.value


def written(text: str, path: Sequence[str], dialect: Dialect) -> str:
    """The lines that hold a key and its value; empty if there is no such key.

    Raises:
        ValueError: as for `lookup`.
    """
    found = _find(_read(text, dialect), path)
    if found is None:
        return ""
    return _outdented(text[_line_start(text, found.start) : found.value.end])


def put(text: str, path: Sequence[str], value: Any, dialect: Dialect) -> str:
    """The text with this value at this path of keys. Raises ValueError as `lookup` does."""
    root = _read(text, dialect)
    newline = "\r\n" if "\r\n" in text else "\n"
    style = _Style(_unit(text, root), newline)
    found = _find(root, path)
    if found is not None:
        indent = _own_line(text, found.start)
        return _cut(text, found.value.start, found.value.end, style.dumped(value, indent))
    holder, keys = root, list(path)
    while (below := _member(holder, keys[0])) is not None:
        holder = below.value
        keys.pop(0)
    for key in reversed(keys[1:]):
        value = {key: value}
    return _insert(text, holder, keys[0], value, style)


def drop(text: str, path: Sequence[str], dialect: Dialect) -> str:
    """The text without the key at this path. The object around it stays, even if empty.

    Raises:
        ValueError: as for `lookup`.
        KeyError: there is no such key.
    """
    root = _read(text, dialect)
    holder, found = _find(root, path[:-1]), _find(root, path)
    if found is None:
        raise KeyError(path[-1])
    members = (root if holder is None else holder.value).members
    place = next(at for at, member in enumerate(members) if member is found)
    if place + 1 < len(members):
        end = found.end + len(_blank(text, found.end))
        # Also remove the rest of the line and the indentation of the next line, which is the same.
        if text[end : end + 2].startswith(("\n", "\r\n")):
            end = text.index("\n", end) + 1
            end += len(_blank(text, end))
        return _cut(text, found.start, end, "")
    before, rest = text[: found.start].rstrip(), text[found.end :]
    gap = text[len(before) : found.start]
    if place > 0 and found.comma is None:
        comma = members[place - 1].comma
        assert comma is not None, "two members without a comma between them"
        before = before[:comma] + before[comma + 1 :]
    if before.endswith("{") and rest.lstrip().startswith("}"):
        return before + rest.lstrip()
    if "\n" in gap and not rest.lstrip(" \t").startswith(("\n", "\r\n")):
        # The line before may end in a comment, which would swallow the text after it.
        before += gap[: gap.rindex("\n") + 1]
    return before + rest


@dataclass(frozen=True, slots=True)
class _Style:
    """The style of the file: the indentation of a level, and the line ending."""

    unit: str
    newline: str

    def dumped(self, value: Any, indent: str | None) -> str:
        """A value on several lines, or on one line if `indent` is None."""
        if indent is None:
            return json.dumps(value, ensure_ascii=False)
        lines = json.dumps(value, ensure_ascii=False, indent=self.unit).split("\n")
        return f"{self.newline}{indent}".join(lines)


def _insert(text: str, holder: _Value, key: str, value: Any, style: _Style) -> str:
    """Add a key at the end of an object."""
    inside = text[holder.start + 1 : holder.end - 1]
    end = holder.start + 1 + len(inside.rstrip())
    label = f"{json.dumps(key, ensure_ascii=False)}: "
    if holder.members and "\n" not in inside:
        last = holder.members[-1]
        comma = "" if last.comma is not None else ","
        added = f" {label}{style.dumped(value, None)}"
        return text[: last.value.end] + comma + text[last.value.end : end] + added + text[end:]
    closing = _leading(text, holder.start)
    indent, comma = closing + style.unit, ""
    if holder.members:
        last = holder.members[-1]
        own = _own_line(text, last.start)
        indent = indent if own is None else own
        if last.comma is None:
            text = _cut(text, last.value.end, last.value.end, ",")
            end += 1
        else:
            # This file uses trailing commas.
            comma = ","
    added = f"{style.newline}{indent}{label}{style.dumped(value, indent)}{comma}"
    after = text[end:]
    if "\n" not in inside:
        after = f"{style.newline}{closing}{after.lstrip()}"
    return text[:end] + added + after


def _find(root: _Value, path: Sequence[str]) -> _Member | None:
    found: _Member | None = None
    holder = root
    for at, key in enumerate(path):
        if not isinstance(holder.value, dict):
            named = ".".join(path[:at])
            raise ValueError(f"{named!r} is not an object" if named else "it is not an object")
        found = _member(holder, key)
        if found is None:
            return None
        holder = found.value
    return found


def _member(holder: _Value, key: str) -> _Member | None:
    found = [member for member in holder.members if member.key == key]
    if len(found) > 1:
        raise ValueError(f"it has the key {key!r} twice")
    return found[0] if found else None


def _unit(text: str, root: _Value) -> str:
    own = _own_line(text, root.members[0].start) if root.members else None
    return (own or "").removeprefix(_leading(text, root.start)) or _INDENT


def _line_start(text: str, at: int) -> int:
    """The start of the line if only blanks precede the position; else the position."""
    return at if (own := _own_line(text, at)) is None else at - len(own)


def _own_line(text: str, at: int) -> str | None:
    """The blanks before a position, if nothing else precedes it on its line."""
    before = text[text.rfind("\n", 0, at) + 1 : at]
    return before if not before.strip() else None


def _leading(text: str, at: int) -> str:
    """The indentation of the line of a position."""
    return _blank(text, text.rfind("\n", 0, at) + 1)


def _blank(text: str, at: int) -> str:
    rest = text[at:]
    return rest[: len(rest) - len(rest.lstrip(" \t"))]


def _outdented(text: str) -> str:
    indent = _blank(text, 0)
    return "\n".join(line.removeprefix(indent) for line in text.splitlines())


def _cut(text: str, start: int, end: int, instead: str) -> str:
    return text[:start] + instead + text[end:]


def _read(text: str, dialect: Dialect) -> _Value:
    try:
        return _Reader(text, dialect).whole()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


class _Reader:
    """Parses JSON and keeps the position of every value."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self._text = text
        self._dialect = dialect
        self._at = 1 if text.startswith("\ufeff") else 0

    def whole(self) -> _Value:
        self._space()
        value = self._value()
        self._space()
        if self._at < len(self._text):
            self._fail("there is text after the end")
        return value

    def _value(self) -> _Value:
        start = self._at
        match self._text[start : start + 1]:
            case "{":
                return self._object()
            case "[":
                return self._array()
            case '"':
                text = self._string()
                return _Value(start, self._at, text)
        for word, value in _WORDS.items():
            if self._text.startswith(word, start):
                self._at += len(word)
                return _Value(start, self._at, value)
        number = _NUMBER.match(self._text, start)
        if number is None:
            self._fail("a value is missing")
        self._at = number.end()
        return _Value(start, self._at, json.loads(number[0]))

    def _string(self) -> str:
        found = _STRING.match(self._text, self._at)
        if found is None:
            self._fail("a string is missing or not closed")
        self._at = found.end()
        try:
            return str(json.loads(found[0]))
        except ValueError:
            self._at = found.start()
            self._fail("a string has an invalid escape")

    def _object(self) -> _Value:
        start = self._at
        members: list[_Member] = []
        while self._goes_on("}", first=not members):
            key_at = self._at
            key = self._string()
            self._space()
            if not self._take(":"):
                self._fail("a colon is missing")
            self._space()
            value = self._value()
            self._space()
            comma = self._at if self._text.startswith(",", self._at) else None
            members.append(_Member(key, key_at, value, comma))
        whole = {member.key: member.value.value for member in members}
        return _Value(start, self._at, whole, tuple(members))

    def _array(self) -> _Value:
        start = self._at
        values: list[Any] = []
        while self._goes_on("]", first=not values):
            values.append(self._value().value)
            self._space()
        return _Value(start, self._at, values)

    def _goes_on(self, closing: str, *, first: bool) -> bool:
        """Step over the opening bracket or a comma. False after the closing bracket."""
        if first:
            self._at += 1
            self._space()
            return not self._take(closing)
        if self._take(closing):
            return False
        if not self._take(","):
            self._fail(f"a comma or {closing} is missing")
        self._space()
        if self._text.startswith(closing, self._at):
            if not self._dialect.trailing_commas:
                self._fail(f"nothing follows the comma before {closing}")
            self._at += 1
            return False
        return True

    def _take(self, char: str) -> bool:
        found = self._text.startswith(char, self._at)
        self._at += found
        return found

    def _space(self) -> None:
        while True:
            while self._text[self._at : self._at + 1] in (" ", "\t", "\n", "\r"):
                self._at += 1
            if not self._dialect.comments:
                return
            if self._text.startswith("//", self._at):
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif self._text.startswith("/*", self._at):
                end = self._text.find("*/", self._at + 2)
                if end < 0:
                    self._fail("a comment is not closed")
                self._at = end + 2
            else:
                return

    def _fail(self, why: str) -> NoReturn:
        line = self._text.count("\n", 0, self._at) + 1
        column = self._at - self._text.rfind("\n", 0, self._at)
        raise ValueError(f"{why} at line {line}, column {column}")
