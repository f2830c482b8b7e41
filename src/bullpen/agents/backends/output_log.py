"""The log of an agent's output: a private file, shown from its end."""

from __future__ import annotations

import os
import re

LINES = 200
"""How many last lines are shown."""

_TAIL_BYTES = 256 * 1024
# Terminal control sequences: those with a terminator (titles), cursor and colour sequences, other
# escapes, and single control characters.
_STEERING = re.compile(
    r"\x1b[\]PX^_].*?(?:\x07|\x1b\\)"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[ -/]*[0-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f]",
    re.DOTALL,
)


def open_log(path: str) -> int:
    """A descriptor that appends to the log. A missing log is created as a private file."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def tail(path: str | None) -> str:
    """The last lines of a log as plain text; "" if there is no log."""
    if path is None:
        return ""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            data = file.read()
    except FileNotFoundError:
        return ""
    return last_lines(_STEERING.sub("", data.decode("utf-8", "replace").replace("\r\n", "\n")))


def last_lines(text: str) -> str:
    """The last lines of a text, without trailing blanks and blank lines."""
    lines = [line.rstrip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines[-LINES:])
