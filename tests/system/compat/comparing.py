"""What differs between two answers, and which differences are deliberate."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

_ABSENT = "<absent>"


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that is another now, and where it is: `/stdout/0/state`."""

    command: str
    path: str
    before: Any
    now: Any


@dataclass(frozen=True, slots=True)
class Change:
    """Differences that are deliberate: those of the commands and paths that the patterns fit."""

    phases: tuple[str, ...]
    command: str
    path: str
    reason: str

    def covers(self, difference: Difference) -> bool:
        """Whether a difference is this change."""
        return fnmatchcase(difference.command, self.command) and fnmatchcase(
            difference.path, self.path
        )


@dataclass(frozen=True, slots=True)
class Wrapped:
    """What was at the top of an answer and is in an object now, under a key: a list or null."""

    command: str
    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class Renamed:
    """A key that has another name now, wherever it is in the answers of some commands."""

    command: str
    before: str
    now: str
    reason: str


def translated(
    answers: Sequence[dict[str, Any]], wrapped: Sequence[Wrapped], renamed: Sequence[Renamed]
) -> tuple[list[dict[str, Any]], list[Wrapped | Renamed]]:
    """Earlier answers in the shape of today's, and what of the lists applied to none."""
    used: set[Wrapped | Renamed] = set()
    found = []
    for answer in answers:
        value, command = answer["stdout"], answer["command"]
        for rename in renamed:
            if fnmatchcase(command, rename.command):
                value, some = _with_names(value, rename)
                used |= {rename} if some else set()
        for wrap in wrapped:
            is_error = isinstance(value, dict) and "error" in value
            if fnmatchcase(command, wrap.command) and not is_error:
                value = {wrap.key: value}
                used.add(wrap)
        found.append({**answer, "stdout": value})
    listed: list[Wrapped | Renamed] = [*wrapped, *renamed]
    return found, [each for each in listed if each not in used]


def _with_names(value: Any, rename: Renamed) -> tuple[Any, bool]:
    """A value with its keys renamed, and whether there were any."""
    if isinstance(value, list):
        pairs = [_with_names(each, rename) for each in value]
        return [each for each, _ in pairs], any(some for _, some in pairs)
    if not isinstance(value, dict):
        return value, False
    items = {key: _with_names(each, rename) for key, each in value.items()}
    names = {key: rename.now if key == rename.before else key for key in items}
    some = rename.before in items or any(some for _, some in items.values())
    return {names[key]: each for key, (each, _) in items.items()}, some


def reshaped(path: Path) -> tuple[list[Wrapped], list[Renamed]]:
    """The lists of wrapped answers and renamed keys."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    wrapped = [Wrapped(**each) for each in found.get("wrapped", [])]
    return wrapped, [Renamed(**each) for each in found.get("renamed", [])]


def deliberate(path: Path, phase: str) -> list[Change]:
    """The deliberate changes in the answers of one run."""
    found = tomllib.loads(path.read_text(encoding="utf-8")).get("change", [])
    changes = [Change(**{**each, "phases": tuple(each["phases"])}) for each in found]
    assert all(change.reason for change in changes)
    return [change for change in changes if phase in change.phases]


def judge(
    before: Sequence[dict[str, Any]], now: Sequence[dict[str, Any]], changes: Sequence[Change]
) -> tuple[list[Difference], list[Change]]:
    """The differences that no change covers, and the changes that cover none."""
    found = [
        difference
        for old, new in zip(before, now, strict=True)
        for difference in _differences(old["command"], "", old, new)
    ]
    unlisted = [each for each in found if not any(change.covers(each) for change in changes)]
    unused = [change for change in changes if not any(change.covers(each) for each in found)]
    return unlisted, unused


def _differences(command: str, path: str, before: Any, now: Any) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            old, new = before.get(key, _ABSENT), now.get(key, _ABSENT)
            yield from _differences(command, f"{path}/{key}", old, new)
        if list(before) != list(now) and before.keys() == now.keys():
            yield Difference(command, f"{path}/order", list(before), list(now))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from _differences(command, f"{path}/{number}", old, new)
    elif before != now or type(before) is not type(now):
        yield Difference(command, path, before, now)
