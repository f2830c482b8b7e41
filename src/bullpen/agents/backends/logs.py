"""The file that what an agent prints goes to: opened for one user only, read from its end."""

from __future__ import annotations

import os
import re

LINES = 200
"""How many of the last lines are shown."""

_TAIL_BYTES = 256 * 1024
# What terminals act upon instead of showing it: sequences with an end of their own (titles),
# sequences that move or colour, other escapes, and single control characters.
_STEERING = re.compile(
    r"\x1b[\]PX^_].*?(?:\x07|\x1b\\)"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[ -/]*[0-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f]",
    re.DOTALL,
)


def open_log(path: str) -> int:
    """A descriptor that appends to the log, which is made for this user alone if it is missing."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def tail(path: str | None) -> str:
    """The last lines of a log as plain text; "" if there is none."""
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
    """The last lines of a text, without the blanks at the ends of lines and of the text."""
    lines = [line.rstrip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines[-LINES:])
