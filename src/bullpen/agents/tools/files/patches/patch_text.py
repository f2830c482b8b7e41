"""The patches that OpenAI's models write: read them, and apply them to a text. Pure.

A patch adds, updates, moves and deletes files. A hunk has the lines around a change, not their
numbers; `@@` names lines above it, such as the class and the function that it is in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from bullpen.errors import Invalid, Refused

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_ADD, _UPDATE, _DELETE = "*** Add File: ", "*** Update File: ", "*** Delete File: "
_MOVE, _AT_END = "*** Move to: ", "*** End of File"

_REMEDY = (
    "Send '*** Begin Patch', then for each file '*** Add File: PATH', '*** Update File: PATH' or"
    " '*** Delete File: PATH' with its lines, then '*** End Patch'. Nothing was changed."
)


@dataclass(slots=True)
class Hunk:
    """One change: `old` lines become `new` ones, after the lines that `@@` names."""

    after: list[str] = field(default_factory=list)
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    at_end: bool = False


@dataclass(slots=True)
class FileChange:
    """What a patch does to one file. `hunks` are of an update, `lines` of a new file."""

    kind: Literal["add", "update", "delete"]
    path: str
    move_to: str | None = None
    hunks: list[Hunk] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def parse(patch: str) -> list[FileChange]:
    """The changes in a patch. Raises Invalid, with the number of the wrong line."""
    lines = patch.replace("\r\n", "\n").strip().split("\n")
    # Some models write the patch as a shell would read it.
    if lines[0].startswith("<<") and len(lines) > 2:
        lines = lines[1:-1]
    if lines[0].strip() != _BEGIN or lines[-1].strip() != _END:
        raise _wrong("it does not begin with '*** Begin Patch' and end with '*** End Patch'")
    changes: list[FileChange] = []
    for number, line in enumerate(lines[1:-1], start=2):
        if (change := _begun(line)) is not None:
            changes.append(change)
        elif not changes:
            raise _wrong(f"line {number} names no file: {line[:80]!r}")
        else:
            _add_line(changes[-1], line, number)
    _check(changes)
    return changes


def _begun(line: str) -> FileChange | None:
    if line.startswith(_ADD):
        return FileChange("add", line.removeprefix(_ADD).strip())
    if line.startswith(_UPDATE):
        return FileChange("update", line.removeprefix(_UPDATE).strip())
    if line.startswith(_DELETE):
        return FileChange("delete", line.removeprefix(_DELETE).strip())
    return None


def _add_line(change: FileChange, line: str, number: int) -> None:
    """Add a line of the patch to the change that it belongs to."""
    if change.kind == "add" and line.startswith("+"):
        change.lines.append(line[1:])
    elif change.kind == "update" and line.startswith(_MOVE) and not change.hunks:
        change.move_to = line.removeprefix(_MOVE).strip()
    elif change.kind == "update" and (line == "@@" or line.startswith("@@ ")):
        _add_context(change, line[3:])
    elif change.kind == "update" and line.strip() == _AT_END and change.hunks:
        change.hunks[-1].at_end = True
    elif change.kind == "update" and (not line or line[0] in " +-"):
        if not change.hunks or change.hunks[-1].at_end:
            change.hunks.append(Hunk())
        hunk = change.hunks[-1]
        # An empty line stands for an empty line of the file: models leave the space out.
        if not line.startswith("+"):
            hunk.old.append(line[1:])
        if not line.startswith("-"):
            hunk.new.append(line[1:])
    else:
        raise _wrong(f"line {number} does not belong to a change of {change.path!r}: {line[:80]!r}")


def _add_context(change: FileChange, named: str) -> None:
    """Begin a hunk with `@@`; several in a row name lines of the same one."""
    last = change.hunks[-1] if change.hunks else None
    if last is None or last.old or last.new:
        change.hunks.append(Hunk(after=[named] if named.strip() else []))
    elif named.strip():
        last.after.append(named)


def _check(changes: Sequence[FileChange]) -> None:
    if not changes:
        raise _wrong("it changes no file")
    paths: set[str] = set()
    for change in changes:
        for path in filter(None, (change.path, change.move_to)):
            if path in paths:
                raise _wrong(f"it names {path!r} twice")
            paths.add(path)
        if not change.path or change.move_to == "":
            raise _wrong("a path is empty")
        change.hunks = [hunk for hunk in change.hunks if hunk.old or hunk.new]
        if change.kind == "update" and not change.hunks and change.move_to is None:
            raise _wrong(f"it changes nothing in {change.path!r}")


def _wrong(why: str) -> Invalid:
    return Invalid(f"The patch cannot be read: {why}.", remedy=_REMEDY)


def patched(text: str, change: FileChange) -> str:
    """The text of a file after an update. Raises Refused if a hunk does not match.

    Lines that stay keep their endings; new ones have the ending that most lines have.
    """
    lines = _split(text)
    ending = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    bare = [line.rstrip("\r\n") for line in lines]
    made: list[str] = []
    # Up to where the lines are in `made`, and from where to look for the next hunk.
    done = 0
    for number, hunk in enumerate(change.hunks, start=1):
        which = f"{number} of {len(change.hunks)}"
        try:
            at = _found(bare, hunk, done, change.path, which)
        except Refused:
            if not hunk.old or hunk.old[-1] or not hunk.new or hunk.new[-1]:
                raise
            # The empty line may be between two parts of the patch, not in the file.
            hunk = replace(hunk, old=hunk.old[:-1], new=hunk.new[:-1])
            at = _found(bare, hunk, done, change.path, which)
        made += [line if line.endswith("\n") else line + ending for line in lines[done:at]]
        made += [f"{new}{ending}" for new in hunk.new]
        done = at + len(hunk.old)
    return "".join([*made, *lines[done:]])


def _split(text: str) -> list[str]:
    """The lines with their endings; only newlines end a line."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _found(lines: Sequence[str], hunk: Hunk, start: int, path: str, which: str) -> int:
    """Where a hunk begins, at `start` or below it."""
    for named in hunk.after:
        at = _first(lines, [named], start)
        if at is None:
            raise _no_match(path, which, [named])
        start = at + 1
    if not hunk.old:
        # Only new lines: they follow what @@ names, or else the whole text.
        return start if hunk.after else len(lines)
    if hunk.at_end:
        at = _first(lines, hunk.old, max(start, len(lines) - len(hunk.old)))
        if at is not None:
            return at
    at = _first(lines, hunk.old, start)
    if at is None and hunk.after:
        # The line that @@ names may also be the first one of the hunk.
        at = _first(lines, hunk.old, start - 1)
    if at is None:
        raise _no_match(path, which, hunk.old)
    return at


def _first(lines: Sequence[str], wanted: Sequence[str], start: int) -> int | None:
    """Where these lines are first: exactly, else but for white space at their ends."""
    same: tuple[Callable[[str], str], ...] = (str, str.rstrip, str.strip)
    for form in same:
        looked_for = [form(line) for line in wanted]
        for at in _starts(lines, wanted, start):
            if [form(line) for line in lines[at : at + len(wanted)]] == looked_for:
                return at
    return None


def _starts(lines: Sequence[str], wanted: Sequence[str], start: int) -> Iterator[int]:
    return iter(range(max(start, 0), len(lines) - len(wanted) + 1))


def _no_match(path: str, which: str, wanted: Sequence[str]) -> Refused:
    # Several lines, which the model needs to see what it got wrong.
    shown = "\n".join(["It has no such lines:", *wanted[:20], "Nothing was changed."])
    message = f"Hunk {which} of {path!r} does not match the file. {shown}"
    return Refused(
        message,
        reason="no_match",
        remedy="Read the file again, and copy the lines around the change exactly.",
    )
