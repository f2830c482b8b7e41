"""Finds the line of each key and value in a TOML file. Pure.

The standard library does not say. It has parsed the text before, so the text is valid TOML here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence

Path = tuple[str | int, ...]
"""A place in a file: names of tables and keys, and indexes of list entries."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(
    r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
    r"""(?:[ \t]*\.[ \t]*(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'))*"""
)
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")'
    r"|'''.*?'{3,5}(?!')"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]*")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


def lines_of(text: str) -> dict[Path, int]:
    """Return the line of every table, key and list entry, counted from 1."""
    return _Scan(text).lines()


def line_of(lines: Mapping[Path, int], path: Sequence[str | int]) -> int:
    """Return the line of a place; if it does not exist, the line of what it would be in."""
    for length in range(len(path), 0, -1):
        found = lines.get(tuple(path[:length]))
        if found is not None:
            return found
    return 1


class _Scan:
    """One pass over a text."""

    def __init__(self, text: str) -> None:
        # As the standard library does.
        self._text = text.replace("\r\n", "\n")
        self._at = 0
        # Up to where lines were counted, and how many there were.
        self._counted, self._line = 0, 1
        self._lines: dict[Path, int] = {}
        # How many tables each list has so far.
        self._tables: dict[Path, int] = {}

    def lines(self) -> dict[Path, int]:
        table: Path = ()
        while self._skip():
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)
        return self._lines

    def _skip(self) -> bool:
        """Skip blanks and comments. Returns whether anything follows."""
        found = _BLANK.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._at < len(self._text)

    def _here(self) -> int:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def _mark(self, path: Path, line: int) -> None:
        for length in range(1, len(path) + 1):
            self._lines.setdefault(path[:length], line)

    def _header(self) -> Path:
        is_list = self._text.startswith("[[", self._at)
        here = self._here()
        self._at += 1 + is_list
        self._skip()
        *above, last = self._key()
        self._at = self._text.index("]", self._at) + 1 + is_list
        path: Path = ()
        for part in above:
            path = self._newest((*path, part))
        path = (*path, last)
        if is_list:
            self._lines.setdefault(path, here)
            number = self._tables.get(path, 0)
            self._tables[path] = number + 1
            path = (*path, number)
        else:
            path = self._newest(path)
        self._mark(path, here)
        return path

    def _newest(self, path: Path) -> Path:
        """Return the path, with the index of the newest table if it is a list of tables."""
        count = self._tables.get(path)
        return path if count is None else (*path, count - 1)

    def _pair(self, table: Path) -> None:
        here = self._here()
        path = (*table, *self._key())
        self._mark(path, here)
        self._at = self._text.index("=", self._at) + 1
        self._value(path)

    def _key(self) -> list[str]:
        found = _KEY.match(self._text, self._at)
        if found is None:
            raise ValueError(f"no key at character {self._at}")
        self._at = found.end()
        words = found[0]
        if _PLAIN_KEY.fullmatch(words):
            return [words]
        return _unfolded(tomllib.loads(f"{words} = 0"))

    def _value(self, path: Path) -> None:
        self._skip()
        start = self._text[self._at]
        if start == "[":
            self._list(path)
        elif start == "{":
            self._inline(path)
        else:
            found = (_STRING if start in "\"'" else _SCALAR).match(self._text, self._at)
            if found is None:
                raise ValueError(f"no value at character {self._at}")
            self._at = found.end()

    def _list(self, path: Path) -> None:
        self._at += 1
        number = 0
        while self._skip() and self._text[self._at] != "]":
            if self._text[self._at] == ",":
                self._at += 1
                continue
            self._mark((*path, number), self._here())
            self._value((*path, number))
            number += 1
        self._at += 1

    def _inline(self, path: Path) -> None:
        self._at += 1
        while self._skip() and self._text[self._at] != "}":
            if self._text[self._at] == ",":
                self._at += 1
                continue
            self._pair(path)
        self._at += 1


def _unfolded(table: dict[str, object]) -> list[str]:
    words: list[str] = []
    at: object = table
    while isinstance(at, dict):
        ((word, at),) = at.items()
        words.append(word)
    return words
