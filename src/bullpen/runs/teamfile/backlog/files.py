"""Reads the files of a folder as entries of a backlog: the first line is the subject."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

import yaml

from bullpen.errors import Unreadable
from bullpen.runs.teamfile.backlog.entries import (
    ENTRIES_MAX,
    SOURCE_BYTES_MAX,
    BacklogEntry,
    Fields,
    check_lines,
    fields_of,
    lines_in,
    wrong,
)

_FRONT = re.compile(
    r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$\n?(.*)\Z", re.DOTALL | re.MULTILINE
)
_REMEDY = "Fix it, or name another one in the team file."


def entries_in(folder: Path, where: str) -> list[BacklogEntry]:
    """Return an entry for each file of a folder, by name.

    Folders, hidden files, temporary files of editors and binary files are skipped.

    Raises:
        Unreadable: the folder or a file in it cannot be read.
        Invalid: a file cannot be a task.
    """
    try:
        names = sorted(each.name for each in os.scandir(folder) if not each.is_dir())
    except (OSError, ValueError) as error:
        raise unreadable(folder, error) from None
    shown = [name for name in names if not _is_passed_over(name)]
    if len(shown) > ENTRIES_MAX:
        raise wrong(where, f"it has {len(shown)} files; the most is {ENTRIES_MAX}")
    entries = [_entry(folder / name, f"{where}/{name}") for name in shown]
    return [entry for entry in entries if entry is not None]


def read_text(path: Path) -> str | None:
    """Return the text of a file; None if it is binary. Raises Unreadable."""
    try:
        # Opening a pipe must not block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Unreadable(str(path), "it is not a regular file", remedy=_REMEDY)
            data = file.read(SOURCE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    if b"\0" in data:
        return None
    if len(data) > SOURCE_BYTES_MAX:
        raise Unreadable(str(path), f"it is longer than {SOURCE_BYTES_MAX} bytes", remedy=_REMEDY)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        why = f"it is not valid UTF-8 ({error.reason} at byte {error.start})"
        raise Unreadable(str(path), why, remedy=_REMEDY) from None


def unreadable(path: Path, error: OSError | ValueError) -> Unreadable:
    """Return the error for a path that cannot be read."""
    why = error.strerror if isinstance(error, OSError) else None
    if isinstance(error, OSError) and error.errno == errno.ENOENT:
        why = "there is no such file or folder"
    return Unreadable(str(path), why or type(error).__name__, remedy=_REMEDY)


def _is_passed_over(name: str) -> bool:
    return name.startswith((".", "#")) or name.endswith(("~", ".swp", ".tmp"))


def _entry(path: Path, where: str) -> BacklogEntry | None:
    text = read_text(path)
    if text is None:
        return None
    fields = Fields()
    if parts := _FRONT.match(text):
        fields, text = _fields(parts[1], where), parts[2]
    lines = lines_in(text)
    check_lines(lines, where)
    first = next((index for index, line in enumerate(lines) if line.strip()), None)
    if first is None:
        raise wrong(where, "the file has no subject")
    return BacklogEntry(
        where,
        fields.id or path.name,
        lines[first].lstrip("# ").strip(),
        "\n".join(lines[first + 1 :]).strip("\n").rstrip(),
        fields,
    )


def _fields(text: str, where: str) -> Fields:
    try:
        said = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split())[:300]
        raise wrong(where, f"its fields are not valid YAML ({why})") from None
    said = {} if said is None else said
    if isinstance(said, dict):
        # A single word means a list of one.
        for key in ("needs", "after", "checks"):
            if isinstance(said.get(key), str):
                said[key] = [said[key]]
    return fields_of(said, where)
