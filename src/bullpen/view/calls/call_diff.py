"""The change that a tool call makes to a file, as far as the call and its result tell. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from bullpen.protocol import json_text
from bullpen.view.calls.call_line import path_of, shown_path
from bullpen.view.diff import DiffLine, FileDiff, bounded, edit_diff, edit_lines

WHOLE_FILE = "whole file"
"""The note of a diff whose file may have been there before: its old text is not known."""

_NUMBERED = re.compile(r"^ *(\d+)[\t→](.*)$", re.MULTILINE)
_PATCHED = ("*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: ")


def call_diff(
    name: str, given: Any, result: str | None = None, *, cwd: str | None = None
) -> FileDiff | None:
    """The change that a call makes; None if it changes no file. `result` tells where it is."""
    if not isinstance(given, Mapping):
        return None
    if name in ("ApplyPatch", "apply_patch"):
        return _patch(str(given.get("input") or given.get("patch") or ""), cwd)
    path = path_of(given)
    if path is None or name not in ("Edit", "MultiEdit", "Write"):
        return None
    shown = shown_path(path, cwd)
    if (structured := _structured(shown, result or "")) is not None:
        return structured
    if name == "Write":
        content = given.get("content")
        if not isinstance(content, str):
            return None
        note = "new file" if _is_new(result) else WHOLE_FILE
        return bounded(shown, edit_lines("", content, first=1), note)
    steps = given.get("edits") if name == "MultiEdit" else [given]
    return _edits(shown, steps, result) if isinstance(steps, list) else None


def _edits(path: str, steps: list[Any], result: str | None) -> FileDiff | None:
    texts = [texts for step in steps if (texts := _texts(step)) is not None]
    every = any(isinstance(step, Mapping) and step.get("replace_all") is True for step in steps)
    note = "every occurrence" if every else ""
    if len(texts) == 1:
        ((old, new),) = texts
        found = edit_diff(path, old, new, first=_first_line(new, result or ""))
        return replace(found, note=note or found.note)
    lines: list[DiffLine] = []
    for number, (old, new) in enumerate(texts, start=1):
        lines.append(DiffLine("hunk", None, None, f"@@ edit {number} @@"))
        lines += edit_lines(old, new)
    return bounded(path, lines, note) if texts else None


def _texts(step: Any) -> tuple[str, str] | None:
    """The old and the new text of one edit."""
    if not isinstance(step, Mapping):
        return None
    old, new = step.get("old_string"), step.get("new_string")
    return (old, new) if isinstance(old, str) and isinstance(new, str) else None


def _first_line(new: str, result: str) -> int | None:
    """The number of the first line of an edit, from the lines that the result shows."""
    wanted = new.split("\n")
    rows = [(int(number), text) for number, text in _NUMBERED.findall(result)]
    for at, (number, text) in enumerate(rows):
        # The edit may begin and end within a line.
        ends = wanted[0] in text if len(wanted) == 1 else text.endswith(wanted[0])
        inner = [row for _, row in rows[at + 1 : at + len(wanted) - 1]]
        if wanted[0].strip() and ends and inner == wanted[1:-1][: len(inner)]:
            return number
    return None


def _structured(path: str, result: str) -> FileDiff | None:
    """The diff that Claude Code's own result has."""
    if '"structuredPatch"' not in result:
        return None
    try:
        found = json_text.loads(result.encode())
    except ValueError:
        return None
    hunks = found.get("structuredPatch") if isinstance(found, dict) else None
    if not isinstance(hunks, list) or not hunks:
        return None
    lines = [line for hunk in hunks if isinstance(hunk, dict) for line in _hunk(hunk)]
    return bounded(path, lines)


def _hunk(hunk: Mapping[str, Any]) -> Iterator[DiffLine]:
    old, new, rows = hunk.get("oldStart"), hunk.get("newStart"), hunk.get("lines")
    if not isinstance(old, int) or not isinstance(new, int) or not isinstance(rows, list):
        return
    yield DiffLine("hunk", None, None, f"@@ -{old} +{new} @@")
    for row in rows:
        sign, text = str(row)[:1], str(row)[1:]
        if sign == "+":
            yield DiffLine("added", None, new, text)
        elif sign == "-":
            yield DiffLine("removed", old, None, text)
        elif sign == " ":
            yield DiffLine("context", old, new, text)
        old, new = old + (sign in " -"), new + (sign in " +")


def _is_new(result: str | None) -> bool:
    head = (result or "")[:2_000]
    return " was created:" in head or '"type":"create"' in head or '"type": "create"' in head


def _patch(text: str, cwd: str | None) -> FileDiff | None:
    """A patch of several files in one: a line for each file, then its changes."""
    lines: list[DiffLine] = []
    paths: list[str] = []
    for line in text.split("\n"):
        if line.startswith(_PATCHED):
            shown = shown_path(line.partition(": ")[2].strip(), cwd)
            paths += [] if line.startswith("*** Move") else [shown]
            lines.append(DiffLine("hunk", None, None, f"{line[4:].partition(':')[0]}: {shown}"))
        elif line.startswith("@@"):
            lines.append(DiffLine("hunk", None, None, line))
        elif line.startswith("+"):
            lines.append(DiffLine("added", None, None, line[1:]))
        elif line.startswith("-"):
            lines.append(DiffLine("removed", None, None, line[1:]))
        elif line.startswith(" ") and paths:
            lines.append(DiffLine("context", None, None, line[1:]))
    if not paths:
        return None
    return bounded(paths[0] if len(paths) == 1 else f"{len(paths)} files", lines)
