"""What a request asks for, exactly: a command, a change to a file as a diff, a plan."""

from __future__ import annotations

import difflib
import os
import stat
from typing import Any

from bullpen.agents.news import asked_for
from bullpen.protocol import jsontext
from bullpen.protocol.request import Request
from bullpen.view.text import Cell

_FILE_BYTES_MAX = 1024 * 1024
"""Larger files are not compared: what is to be put into them is shown alone."""

_DIFF_STYLES = {"+": "good", "-": "bad", "@": "cyan"}


def action(request: Request, *, cwd: str | None, changed: Any = None) -> list[Cell]:
    """The lines that show what is asked for. `changed` is the input that an answer put in."""
    subject = request.subject
    if request.kind == "plan":
        return [Cell(line) for line in str(subject.get("plan", "")).split("\n")]
    if request.kind == "shutdown":
        return [Cell(f"Asks {request.to} to end: {subject.get('reason') or 'no reason is given'}")]
    given = subject.get("input") if changed is None else changed
    if not isinstance(given, dict):
        return [Cell(_text(given))]
    match subject.get("toolName"):
        case "Bash" if isinstance(given.get("command"), str):
            return _command(given)
        case "Edit" | "Write" if isinstance(given.get("file_path"), str):
            return _change(given, cwd or "/")
        case _:
            return _fields(given)


def why(request: Request) -> str:
    """Why it has to be asked, as far as the asker said so."""
    said = str(request.subject.get("description") or "")
    begins = f"{asked_for(request)} ("
    # The asker names the call first, which is shown anyway.
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


def _change(given: dict[str, Any], cwd: str) -> list[Cell]:
    """A call of Edit or Write as a diff against the file as it is now."""
    path = given["file_path"]
    before, note = _content(os.path.join(cwd, os.path.expanduser(path)))
    if "content" in given:
        after = _text(given["content"])
        head = f"{path} ({note or 'the whole file'})"
    else:
        old, new = _text(given.get("old_string", "")), _text(given.get("new_string", ""))
        every = given.get("replace_all") is True
        head = f"{path} ({note or ('every occurrence' if every else 'one occurrence')})"
        if before is not None and old and old in before:
            after = before.replace(old, new) if every else before.replace(old, new, 1)
        else:
            # It will fail or the file will be another by then: what was asked is shown as it is.
            head = f"{path} ({note or 'the text to replace is not in it now'})"
            before, after = old, new
    return [Cell(head, "strong"), *_diff(before or "", after)]


def _diff(before: str, after: str) -> list[Cell]:
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=3, lineterm=""))[
        2:
    ]
    if not lines:
        return [Cell("(nothing changes)", "muted")]
    return [Cell(line, _DIFF_STYLES.get(line[:1], "")) for line in lines]


def _content(path: str) -> tuple[str | None, str]:
    """The text of a file, or None and why it is not shown."""
    try:
        # Opening a pipe would wait for whoever writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None, "a new file"
    except (OSError, ValueError) as error:
        return None, f"cannot be read: {getattr(error, 'strerror', None) or error}"
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return None, "is no regular file"
        if found.st_size > _FILE_BYTES_MAX:
            return None, f"has {found.st_size} bytes, too many to compare"
        try:
            return file.read(_FILE_BYTES_MAX).decode("utf-8"), ""
        except (OSError, UnicodeDecodeError):
            return None, "is no text"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else jsontext.dumps_line(value).decode()
