"""Changing one table of a TOML file of somebody else's; every other line stays as it is."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Strings of several lines first: their quotes also begin strings of one line.
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?!")'
    r"|'''.*?'''(?!')"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[\[\]{}\n]",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class NotATable(Exception):
    """The entry is there, but not under a header of its own."""


@dataclass(frozen=True, slots=True)
class _Section:
    """A header with the lines below it, up to the last one that says something."""

    start: int
    end: int
    keys: tuple[str, ...]


def lookup(text: str, path: Sequence[str]) -> Any:
    """The value under these keys; None if there is none.

    Raises:
        ValueError: it is not TOML, or one of the keys holds something that has no keys.
    """
    found: Any = tomllib.loads(text)
    for at, key in enumerate(path):
        if not isinstance(found, dict):
            raise ValueError(f"{'.'.join(path[:at])!r} is no table")
        found = found.get(key)
        if found is None:
            return None
    return found


def written(text: str, path: Sequence[str]) -> str:
    """The lines in which a table is written; empty if it is not there.

    Raises:
        ValueError: as for `lookup`.
        NotATable: it is there, but has no header of its own.
    """
    if lookup(text, path) is None:
        return ""
    return "\n\n".join(text[each.start : each.end].rstrip() for each in _ours(text, path))


def put(text: str, path: Sequence[str], entry: Mapping[str, Any]) -> str:
    """The text with this table: in the place of the one that is there, else at its end.

    Raises:
        ValueError: as for `lookup`.
        NotATable: what is there has no header of its own.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    block = "".join(f"{line}{newline}" for line in table(path, entry))
    if lookup(text, path) is None:
        if text and not text.endswith("\n"):
            text += newline
        return f"{text}{newline}{block}" if text.strip() else f"{text}{block}"
    first, *others = _ours(text, path)
    for section in reversed(others):
        text = _without(text, section)
    return text[: first.start] + block + text[first.end :]


def drop(text: str, path: Sequence[str]) -> str:
    """The text without this table.

    Raises:
        ValueError, NotATable: as for `put`.
        KeyError: it is not there.
    """
    if lookup(text, path) is None:
        raise KeyError(path[-1])
    for section in reversed(_ours(text, path)):
        text = _without(text, section)
    return text


def table(path: Sequence[str], entry: Mapping[str, Any]) -> list[str]:
    """The lines of a table: a header, and a line for each key."""
    header = ".".join(map(_key, path))
    return [f"[{header}]", *(f"{_key(key)} = {_value(value)}" for key, value in entry.items())]


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(key)} = {_value(each)}' for key, each in value.items())} }}"
    if isinstance(value, str):
        # The same escapes as JSON's, but for this one character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_value, value))}]"
    raise TypeError(f"no such value is ever written: {value!r}")


def _ours(text: str, path: Sequence[str]) -> list[_Section]:
    """The sections of a table and of those below it."""
    depth = len(path)
    found = [each for each in _sections(text) if each.keys[:depth] == tuple(path)]
    if not found:
        raise NotATable(f"{'.'.join(path)} has no header of its own")
    return found


def _sections(text: str) -> list[_Section]:
    found: list[_Section] = []
    for start, end in _lines(text):
        line = text[start:end].strip()
        if line.startswith("["):
            found.append(_Section(start, end, _keys(line)))
        elif line and not line.startswith("#") and found:
            found[-1] = _Section(found[-1].start, end, found[-1].keys)
    return found


def _keys(header: str) -> tuple[str, ...]:
    """The keys of a header, as TOML itself reads them."""
    keys: list[str] = []
    below: Any = tomllib.loads(header)
    while below:
        ((key, below),) = below.items()
        keys.append(key)
        if isinstance(below, list):
            (below,) = below
    return tuple(keys)


def _lines(text: str) -> list[tuple[int, int]]:
    """The lines of a text, where a value that goes over several is one."""
    lines: list[tuple[int, int]] = []
    start = depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] in "[{":
            depth += 1
        elif token[0] in "]}":
            depth -= 1
        elif token[0] == "\n" and depth == 0:
            lines.append((start, token.end()))
            start = token.end()
    return [*lines, (start, len(text))] if start < len(text) else lines


def _without(text: str, section: _Section) -> str:
    """The text without a section and the blank line that set it apart."""
    before, after = text[: section.start], text[section.end :]
    for blank in ("\r\n\r\n", "\n\n"):
        if before.endswith(blank):
            return before[: -len(blank) // 2] + after
    return before + after
