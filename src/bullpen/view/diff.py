"""Changes to files as lines for a screen, from a git diff or from one edit. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from bullpen.view.text import visible

LineKind = Literal["hunk", "context", "added", "removed"]

LINES_MAX = 2_000
"""How many lines of one file are kept; `added` and `removed` still count all."""

_LINE_CHARS_MAX = 1_000
_CONTEXT_LINES = 3
# Comparing takes time that grows with the product of both lengths.
_COMPARED_LINES_MAX = 1_000
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_QUOTED = re.compile(r"\\(?:([0-7]{3})|(.))")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_NO_NEWLINE = "no newline at the end"


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a diff, with its number in the old and in the new file where it is known."""

    kind: LineKind
    old: int | None
    new: int | None
    text: str


@dataclass(frozen=True, slots=True)
class FileDiff:
    """The changes to one file. `note` says what the lines do not: binary, new file, cut."""

    path: str
    added: int
    removed: int
    lines: tuple[DiffLine, ...]
    note: str = ""

    @property
    def counts(self) -> str:
        """The counts as a screen shows them: `+24 -3`."""
        return f"+{self.added} -{self.removed}"


def parse_diff(text: str) -> tuple[FileDiff, ...]:
    """The files of a unified git diff, in their order. What is not a diff is left out."""
    found: list[FileDiff] = []
    part: list[str] = []
    # Only "\n" ends a line of a diff: any other line break is part of the file.
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("diff --git "):
            found += _file(part)
            part = []
        part.append(line)
    return (*found, *_file(part))


def edit_diff(path: str, old: str, new: str, *, first: int | None = None) -> FileDiff:
    """One edit as a diff. `first` is the number of its first line in the file, if known."""
    only_end = old != new and _lines_of(old) == _lines_of(new)
    note = "only the line break at the end" if only_end else ""
    return bounded(path, edit_lines(old, new, first=first), note)


def edit_lines(old: str, new: str, *, first: int | None = None) -> list[DiffLine]:
    """The lines of one edit, numbered from `first` if it is known."""
    before, after = _lines_of(old), _lines_of(new)
    at = 0 if first is None else first - 1
    if max(len(before), len(after)) > _COMPARED_LINES_MAX:
        lines = [
            *(DiffLine("removed", at + n, None, each) for n, each in enumerate(before, 1)),
            *(DiffLine("added", None, at + n, each) for n, each in enumerate(after, 1)),
        ]
    else:
        lines = list(_compared(before, after, at))
    return lines if first is not None else [replace(line, old=None, new=None) for line in lines]


def bounded(path: str, lines: Sequence[DiffLine], note: str = "") -> FileDiff:
    """A diff of these lines with its counts; cut if there are too many, and made visible."""
    added = sum(line.kind == "added" for line in lines)
    removed = sum(line.kind == "removed" for line in lines)
    if len(lines) > LINES_MAX:
        more = f"{len(lines) - LINES_MAX} more lines"
        note = f"{note}, {more}" if note else more
    shown = tuple(replace(line, text=_shown(line.text)) for line in lines[:LINES_MAX])
    return FileDiff(visible(path), added, removed, shown, note)


@dataclass(slots=True)
class _Left:
    """How many lines of a hunk are still to come: a line of a file may look like a header."""

    old: int = 0
    new: int = 0

    @property
    def is_header(self) -> bool:
        return self.old <= 0 and self.new <= 0

    def read(self, line: str) -> None:
        if self.is_header:
            if hunk := _HUNK.match(line):
                self.old, self.new = int(hunk[2] or 1), int(hunk[4] or 1)
        elif line.startswith("+"):
            self.new -= 1
        elif line.startswith("-"):
            self.old -= 1
        elif not line.startswith("\\"):
            self.old -= 1
            self.new -= 1


@dataclass(slots=True)
class _Reading:
    """One file of a git diff as it is read."""

    path: str = ""
    notes: list[str] = field(default_factory=list)
    lines: list[DiffLine] = field(default_factory=list)
    left: _Left = field(default_factory=_Left)
    old: int = 0
    new: int = 0

    def header(self, line: str) -> None:
        if hunk := _HUNK.match(line):
            self.old, self.new = int(hunk[1]), int(hunk[3])
            self.left.read(line)
            self.lines.append(DiffLine("hunk", None, None, line))
        elif line.startswith("new file"):
            self.notes.append("new file")
        elif line.startswith("deleted file"):
            self.notes.append("deleted")
        elif line.startswith("old mode "):
            self.notes.append("mode changed")
        elif line.startswith("rename from "):
            self.notes.append(f"renamed from {_unquoted(line[12:])}")
        elif line.startswith("copy from "):
            self.notes.append(f"copied from {_unquoted(line[10:])}")
        elif line.startswith(("Binary files ", "GIT binary patch")):
            self.notes.append("binary")
        elif line.startswith("\\") and self.lines:
            self.notes.append(_NO_NEWLINE)
        elif named := _named(line):
            self.path = named

    def body(self, line: str) -> None:
        self.left.read(line)
        text = line[1:]
        if line.startswith("+"):
            self.lines.append(DiffLine("added", None, self.new, text))
            self.new += 1
        elif line.startswith("-"):
            self.lines.append(DiffLine("removed", self.old, None, text))
            self.old += 1
        elif line.startswith("\\"):
            self.notes.append(_NO_NEWLINE)
        else:
            self.lines.append(DiffLine("context", self.old, self.new, text))
            self.old += 1
            self.new += 1


def _file(part: Sequence[str]) -> Iterator[FileDiff]:
    """The file of one part of a diff, if it is one."""
    if not part or not part[0].startswith(("diff --git ", "--- ")):
        return
    reading = _Reading(path=_path_in(part[0]))
    for line in part[1:] if part[0].startswith("diff ") else part:
        if reading.left.is_header:
            reading.header(line)
        else:
            reading.body(line)
    notes = ", ".join(dict.fromkeys(reading.notes))
    yield bounded(reading.path, reading.lines, visible(notes))


def _named(line: str) -> str:
    """The path in a line of the header that names a file; "" for any other, and for none."""
    if not line.startswith(("--- ", "+++ ", "rename to ", "copy to ")):
        return ""
    start, _, rest = line.partition(" ")
    if start in ("rename", "copy"):
        return _unquoted(rest.removeprefix("to "))
    path = _unquoted(rest.removesuffix("\t"))
    return "" if path == "/dev/null" else path.partition("/")[2] or path


def _path_in(line: str) -> str:
    """The path in `diff --git a/X b/X`: both are the same unless later lines say otherwise."""
    rest = line.removeprefix("diff --git ")
    if rest.startswith('"'):
        return _unquoted(rest[: (len(rest) - 1) // 2]).partition("/")[2]
    half = (len(rest) - 1) // 2
    return rest[2:half] if rest[:2] == "a/" else rest


def _unquoted(path: str) -> str:
    """A path as it is: git quotes those with unusual characters."""
    if len(path) < 2 or not (path[0] == path[-1] == '"'):
        return path
    raw = bytearray()
    at, inner = 0, path[1:-1]
    for found in _QUOTED.finditer(inner):
        raw += inner[at : found.start()].encode("utf-8", "surrogateescape")
        octal, letter = found.groups()
        raw += bytes([int(octal, 8) & 0xFF]) if octal else _ESCAPES.get(letter, letter).encode()
        at = found.end()
    raw += inner[at:].encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "surrogateescape")


def _compared(before: list[str], after: list[str], at: int) -> Iterator[DiffLine]:
    """The lines of an edit that starts after the line `at` of the file, in hunks."""
    matcher = difflib.SequenceMatcher(None, before, after)
    groups = list(matcher.get_grouped_opcodes(_CONTEXT_LINES))
    for group in groups:
        if len(groups) > 1:
            yield DiffLine("hunk", None, None, "@@")
        for tag, old, old_end, new, new_end in group:
            if tag == "equal":
                for n in range(old_end - old):
                    yield DiffLine("context", at + old + n + 1, at + new + n + 1, before[old + n])
                continue
            for n in range(old, old_end):
                yield DiffLine("removed", at + n + 1, None, before[n])
            for n in range(new, new_end):
                yield DiffLine("added", None, at + n + 1, after[n])


def _lines_of(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _shown(text: str) -> str:
    text = visible(text.removesuffix("\r"))
    if len(text) <= _LINE_CHARS_MAX:
        return text
    return f"{text[:_LINE_CHARS_MAX]}… ({len(text)} characters)"


def total(files: Iterable[FileDiff]) -> tuple[int, int]:
    """How many lines these files add and remove."""
    counts = [(file.added, file.removed) for file in files]
    return sum(added for added, _ in counts), sum(removed for _, removed in counts)
