"""Notes as files: Bullpen's record of each, and its Markdown file, which other programs may edit.

The record has the last version that Bullpen knows. If the file has another text, another program
wrote it: that is the next version of the note, with that program as its author. Whoever first sees
it under the team lock keeps it as a record and logs it. Agents can write to the folder, so links
and anything else that is not a plain file are refused, and no more is read than a note can have.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from bullpen.errors import Unreadable
from bullpen.protocol.changes import Change, PutNote
from bullpen.protocol.format_version import FORMAT, is_newer, version_in
from bullpen.protocol.record.note import NOTE_BYTES_MAX, OTHER_PROGRAM, Note, is_note_name
from bullpen.store.contract import Problem
from bullpen.store.files.disk import Disk, list_folder, open_file
from bullpen.store.files.paths import TeamPaths

_ENDING = ".md"
_PATIENCE_S = 0.3
_JUST_NOW_S = 2.0


class NoteFile(NamedTuple):
    """The text in a note's file, and when it was written."""

    text: str
    time_ms: int


class FoundNotes(NamedTuple):
    """All notes of a team. `strange` are versions of other programs that have no record yet."""

    notes: dict[str, Note]
    strange: list[Note]
    problems: tuple[Problem, ...]


def check_folder(paths: TeamPaths) -> None:
    """Raise Unreadable if the folder of the notes is a link, or no folder at all."""
    try:
        mode = os.lstat(paths.notes).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        raise Unreadable(paths.notes, "it is not a folder")


def read_file(path: str) -> NoteFile | None:
    """Return what is in a note's file, or None if there is none. Raises Unreadable.

    An editor may have just emptied it, to write it anew.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        found = _read_once(path)
        if found is None or found.text.strip():
            return found
        # An age by the wall clock: that is the clock of files.
        age_s = time.time() - found.time_ms / 1000
        if not 0 <= age_s < _JUST_NOW_S or time.monotonic() > deadline:
            return NoteFile("", found.time_ms)
        time.sleep(0.01)


def _read_once(path: str) -> NoteFile | None:
    try:
        fd = open_file(path)
    except FileNotFoundError:
        return None
    try:
        data, status = os.pread(fd, NOTE_BYTES_MAX + 1, 0), os.fstat(fd)
    finally:
        os.close(fd)
    if len(data) > NOTE_BYTES_MAX:
        raise Unreadable(path, f"a note has at most {NOTE_BYTES_MAX} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Unreadable(path, "it is not UTF-8 text") from None
    return NoteFile(text, max(status.st_mtime_ns // 1_000_000, 0))


def current(name: str, record: Note | None, file: NoteFile | None) -> Note | None:
    """Return the last version of a note, given its record and its file. Pure."""
    text = "" if file is None else file.text
    if record is None:
        if file is None or not text:
            return None
        return Note.new(name=name, text=text, version=1, author=OTHER_PROGRAM, time_ms=file.time_ms)
    if text == record.text:
        return record
    return record.evolve(
        text=text,
        version=record.version + 1,
        author=OTHER_PROGRAM,
        time_ms=record.time_ms if file is None else file.time_ms,
    )


def file_names(paths: TeamPaths) -> tuple[list[str], list[Problem]]:
    """Return the names of the notes that have a file, and the files that cannot be notes."""
    check_folder(paths)
    names: list[str] = []
    problems: list[Problem] = []
    for each in sorted(list_folder(paths.notes)):
        # Editors keep files of their own next to the one that they edit.
        if each.startswith(".") or not each.endswith(_ENDING):
            continue
        name = each.removesuffix(_ENDING)
        if is_note_name(name):
            names.append(name)
        else:
            where = os.path.join(paths.notes, each)
            problems.append(Problem(where, "its name is not the name of a note"))
    return names, problems


def files_of(paths: TeamPaths, note: Note) -> dict[str, bytes | None]:
    """Return the files of a version: the text first, so that a record never says too much."""
    text = note.text.encode() if note.text else None
    return {paths.note(note.name): text, paths.note_record(note.name): note.dump()}


def format_of(more: Mapping[str, Any], changes: Iterable[Change]) -> dict[str, Any]:
    """Return the fields of a log's head with the format that these changes need."""
    has_notes = any(isinstance(change, PutNote) for change in changes)
    if has_notes and is_newer(FORMAT, version_in(more)):
        return {**more, "format": FORMAT}
    return dict(more)


def remove_swapped(disk: Disk, temp: str, path: str) -> None:
    """Remove what was put in the place of a file in the moment before it was replaced."""
    if os.path.islink(temp) or not os.path.isfile(temp):
        if not os.path.isdir(temp) or os.path.islink(temp):
            disk.unlink(temp)
    else:
        disk.rename(temp, path)
