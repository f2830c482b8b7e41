"""Change one table of another program's TOML file; every other line stays as it is."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class Unchangeable(Exception):
    """A file that can be read, but not edited without changing other settings in it."""


@dataclass(frozen=True, slots=True)
class _Section:
    """A header with the lines below it, up to the last one that is not blank."""

    start: int
    end: int
    keys: tuple[str, ...]


def lookup(text: str, path: Sequence[str]) -> Any:
    """The value at this path of keys; None if there is none.

    Raises:
        ValueError: it is not TOML, or one of the keys does not hold a table.
    """
    found: Any = tomllib.loads(text)
    for at, key in enumerate(path):
        if not isinstance(found, dict):
            raise ValueError(f"{'.'.join(path[:at])!r} is not a table")
        found = found.get(key)
        if found is None:
            return None
    return found


def written(text: str, path: Sequence[str]) -> str:
    """The lines of a table; empty if there is no such table.

    Raises:
        ValueError: as for `lookup`.
        Unchangeable: it exists, but has no header of its own.
    """
    if lookup(text, path) is None:
        return ""
    return "\n\n".join(text[each.start : each.end].rstrip() for each in _ours(text, path))


def put(text: str, path: Sequence[str], entry: Mapping[str, Any]) -> str:
    """The text with this table, in place of the present one or at the end.

    Raises:
        ValueError: as for `lookup`.
        Unchangeable: the present one has no header of its own.
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
        ValueError, Unchangeable: as for `put`.
        KeyError: there is no such table.
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
        # The same escapes as in JSON, except for this character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_value, value))}]"
    raise TypeError(f"cannot write a value like this: {value!r}")


def _ours(text: str, path: Sequence[str]) -> list[_Section]:
    """The sections of a table and of its subtables."""
    depth = len(path)
    found = [each for each in _sections(text) if each.keys[:depth] == tuple(path)]
    if not found:
        raise Unchangeable(f"{'.'.join(path)} has no header of its own")
    return found


def _sections(text: str) -> list[_Section]:
    starts = [found.start() for found in _HEADER.finditer(text) if _is_toml(text[: found.start()])]
    return [_section(text, *each) for each in pairwise([*starts, len(text)])]


def _section(text: str, start: int, end: int) -> _Section:
    header, *lines = _LINE.findall(text, start, end)
    # Blank lines and comments at the end belong to the next section, unless a string ends there.
    while lines and not lines[-1].split("#")[0].strip() and _is_toml(text[: end - len(lines[-1])]):
        end -= len(lines.pop())
    return _Section(start, end, _keys(header))


def _is_toml(text: str) -> bool:
    """Whether a text is complete TOML, not cut inside a string or an array."""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


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


def _without(text: str, section: _Section) -> str:
    """The text without a section and the blank line before it."""
    before, after = text[: section.start], text[section.end :]
    for blank in ("\r\n\r\n", "\n\n"):
        if before.endswith(blank):
            return before[: -len(blank) // 2] + after
    return before + after
