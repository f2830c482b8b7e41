"""The exact content of a request: a command, a change to a file as a diff, a plan, questions."""

from __future__ import annotations

import difflib
import os
import stat
from itertools import islice
from typing import Any

from bullpen.protocol import json_text
from bullpen.protocol.request import Request
from bullpen.team.requests import question_rules
from bullpen.team.tasks import guarded_rules
from bullpen.view.news import asked_for
from bullpen.view.text import Cell

_FILE_BYTES_MAX = 1024 * 1024
"""Larger files are not compared; only the new text is shown."""

_DIFF_STYLES = {"+": "good", "-": "bad", "@": "cyan"}


def action(request: Request, *, cwd: str | None, changed: Any = None) -> list[Cell]:
    """The lines that show what is asked for; `changed` is an input that replaces the original."""
    subject = request.subject
    if request.kind == "plan":
        return [Cell(line) for line in str(subject.get("plan", "")).split("\n")]
    if request.kind == "question":
        return [Cell(line) for line in question_rules.question_lines(request)]
    if request.kind == "shutdown":
        return [Cell(f"Asks {request.to} to end: {subject.get('reason') or 'no reason given'}")]
    given = subject.get("input") if changed is None else changed
    if not isinstance(given, dict):
        return [Cell(_text(given))]
    match subject.get("toolName"):
        case "Bash" if isinstance(given.get("command"), str):
            return _command(given)
        case "Edit" | "MultiEdit" | "Write" if isinstance(given.get("file_path"), str):
            return _change(given, cwd or "/")
        case guarded_rules.TOOL if isinstance(given.get("changes"), list):
            return _guarded(given)
        case _:
            return _fields(given)


def why(request: Request) -> str:
    """Why approval is needed, as far as the request says."""
    said = str(request.subject.get("description") or "")
    begins = f"{asked_for(request)} ("
    # The description starts with the call, which is shown anyway.
    return said[len(begins) : -1] if said.startswith(begins) and said.endswith(")") else said


def _command(given: dict[str, Any]) -> list[Cell]:
    rest = {key: value for key, value in given.items() if key != "command"}
    return [*map(Cell, given["command"].split("\n")), *_fields(rest)]


def _fields(given: dict[str, Any]) -> list[Cell]:
    lines: list[Cell] = []
    for key, value in given.items():
        first, *rest = _text(value).split("\n")
        lines += [Cell(f"{key}: {first}"), *(Cell(f"  {line}") for line in rest)]
    return lines


def _guarded(given: dict[str, Any]) -> list[Cell]:
    """Changes to guarded paths: what happens to each, then the difference."""
    rows = [row for row in given["changes"] if isinstance(row, dict)]
    diff = [
        Cell(line, _DIFF_STYLES.get(line[:1], ""))
        for line in _text(given.get("diff", "")).rstrip("\n").split("\n")
    ]
    return [
        *(Cell(f"{row.get('path')} ({row.get('what')})", "strong") for row in rows),
        *diff,
        Cell(f"Show it all: {_text(given.get('look', ''))}", "muted"),
    ]


def _change(given: dict[str, Any], cwd: str) -> list[Cell]:
    """A call that changes a file as a diff against the current file."""
    path = given["file_path"]
    before, note = _content(os.path.join(cwd, os.path.expanduser(path)))
    if "content" in given:
        after = _text(given["content"])
        head = f"{path} ({note or 'the whole file'})"
    elif given.get("delete") is True:
        after, head = "", f"{path} (delete the file)"
    elif isinstance(given.get("edits"), list):
        return _several_edits(path, given["edits"], before, note)
    else:
        old, new = _text(given.get("old_string", "")), _text(given.get("new_string", ""))
        every = given.get("replace_all") is True
        head = f"{path} ({note or ('every occurrence' if every else 'one occurrence')})"
        if before is not None and old and old in before:
            after = before.replace(old, new) if every else before.replace(old, new, 1)
        else:
            # The edit would fail now. Show the request as it is.
            head = f"{path} ({note or 'the text to replace is not in it now'})"
            before, after = old, new
    return [Cell(head, "strong"), *_diff(before or "", after)]


def _several_edits(path: str, edits: list[Any], before: str | None, note: str) -> list[Cell]:
    """A call of MultiEdit: one diff, or each edit by itself if they would fail now."""
    steps = [step for step in edits if isinstance(step, dict)]
    texts = [
        (_text(each.get("old_string", "")), _text(each.get("new_string", ""))) for each in steps
    ]
    after = before
    for step, (old, new) in zip(steps, texts, strict=True):
        if after is not None:
            times = -1 if step.get("replace_all") is True else 1
            after = after.replace(old, new, times) if old and old in after else None
    if before is not None and after is not None:
        return [Cell(f"{path} ({len(steps)} edits)", "strong"), *_diff(before, after)]
    head = Cell(f"{path} ({note or 'a text to replace is not in it now'})", "strong")
    return [head, *(cell for old, new in texts for cell in _diff(old, new))]


def _diff(before: str, after: str) -> list[Cell]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=3, lineterm="")
    # Without the two lines that name the files.
    shown = [Cell(line, _DIFF_STYLES.get(line[:1], "")) for line in islice(lines, 2, None)]
    return shown or [Cell("(no changes)", "muted")]


def _content(path: str) -> tuple[str | None, str]:
    """The text of a file, or None and the reason why it cannot be shown."""
    try:
        # Opening a pipe would block until something writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None, "a new file"
    except (OSError, ValueError) as error:
        return None, f"cannot be read: {getattr(error, 'strerror', None) or error}"
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return None, "not a regular file"
        if found.st_size > _FILE_BYTES_MAX:
            return None, f"too large to compare: {found.st_size} bytes"
        try:
            return file.read(_FILE_BYTES_MAX).decode("utf-8"), ""
        except (OSError, UnicodeDecodeError):
            return None, "not a text file"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json_text.dumps_line(value).decode()
