"""Patterns of promised paths: which paths they cover, and whether two of them overlap. Pure.

`*` and `?` stand for characters of one name, `**` for any number of folders. A pattern whose last
name has no extension also covers everything below it, as one that ends with `/` does. Letter case
makes no difference, because on some file systems it makes none.
"""

from __future__ import annotations

from bullpen.errors import Invalid
from bullpen.protocol.guarded_paths import folded

_CHARS_MAX = 300
_ANY = "**"


def check_pattern(pattern: str) -> None:
    """Refuse a pattern that is not below the project, or that covers all of it. Raises Invalid."""
    parts = pattern.split("/")
    outside = pattern.startswith(("/", "~")) or ".." in parts or "\\" in pattern
    if not pattern.strip() or "\0" in pattern or len(pattern) > _CHARS_MAX or outside:
        raise Invalid(
            f"The path {pattern[:_CHARS_MAX]!r} of a promise is not in the project.",
            remedy="Name files relative to the top of the project, such as src/app/*.py.",
        )
    if all(set(part) <= {"*"} for part in _parts(pattern)):
        raise Invalid(
            f"A promise cannot cover the whole project, as {pattern!r} does.",
            remedy="Name only the files that you are going to edit.",
        )


def overlap(one: str, other: str) -> bool:
    """Return whether a path can exist that both patterns cover."""
    return _meet(_parts(one), _parts(other))


def covers(pattern: str, path: str) -> bool:
    """Return whether a pattern covers the path of a file."""
    return _meet(_parts(pattern), tuple(folded(path)))


def is_same_file(one: str, other: str) -> bool:
    """Return whether two paths name the same file."""
    return folded(one) == folded(other)


def _parts(pattern: str) -> tuple[str, ...]:
    parts = tuple(folded(pattern))
    last = parts[-1] if parts else ""
    is_folder = pattern.endswith("/") or "." not in last[1:]
    return parts if last == _ANY or not is_folder else (*parts, _ANY)


def _meet(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether some names fit both lists of patterns."""
    ahead, seen = [(0, 0)], set[tuple[int, int]]()
    while ahead:
        at = ahead.pop()
        if at in seen:
            continue
        seen.add(at)
        i, j = at
        if i == len(one) and j == len(other):
            return True
        first = one[i] if i < len(one) else None
        second = other[j] if j < len(other) else None
        if first == _ANY:
            ahead.append((i + 1, j))
        if second == _ANY:
            ahead.append((i, j + 1))
        if first is None or second is None:
            continue
        if first == _ANY:
            ahead.append((i, j + 1))
        elif second == _ANY:
            ahead.append((i + 1, j))
        elif first == second or _names_meet(first, second):
            ahead.append((i + 1, j + 1))
    return False


def _names_meet(one: str, other: str) -> bool:
    """Return whether some name fits both patterns of one name."""
    if not (_is_pattern(one) or _is_pattern(other)):
        return False
    # Which lengths of `other` fit the first characters of `one`, character by character.
    row = {0}
    for char in one:
        row = _after(row, char, other)
        if not row:
            return False
    return len(other) in _past_stars(row, other)


def _after(row: set[int], char: str, other: str) -> set[int]:
    reached = _past_stars(row, other)
    if char == "*":
        return set(range(min(reached), len(other) + 1))
    fits = {at + 1 for at in reached if at < len(other) and _fits(char, other[at])}
    stays = {at for at in reached if at < len(other) and other[at] == "*"}
    return fits | stays


def _past_stars(row: set[int], other: str) -> set[int]:
    reached = set(row)
    for at in sorted(row):
        while at < len(other) and other[at] == "*":
            at += 1
            reached.add(at)
    return reached


def _fits(one: str, other: str) -> bool:
    return one == other or "?" in (one, other) or other == "*"


def _is_pattern(name: str) -> bool:
    return "*" in name or "?" in name
