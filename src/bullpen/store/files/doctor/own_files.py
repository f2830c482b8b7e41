"""Repairs files that only Bullpen uses, and removes things that block files and folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from bullpen.errors import Unreadable
from bullpen.store.contract import Finding
from bullpen.store.files.disk import Disk, list_folder, nonce, read_bytes
from bullpen.store.files.doctor import quarantine
from bullpen.store.files.doctor.quarantine import is_file
from bullpen.store.files.mail import read_mail
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.records import read_presence
from bullpen.store.files.writer import Writer

_CHECKED_BYTES = 256 * 1024
"""How much of an archive of messages is checked without repairing anything."""

_MOVED = "moved it to quarantine"


def in_the_way_of_the_lock(paths: TeamPaths, disk: Disk, *, fix: bool) -> Iterator[Finding]:
    """Find what blocks the team lock. It can be moved away without the lock."""
    yield from _moved(paths, disk, folders=[paths.own], files=[paths.head], fix=fix)


def in_the_way(paths: TeamPaths, disk: Disk, *, fix: bool) -> Iterator[Finding]:
    """Find what is not a folder where a folder should be, or not a file where a file should be."""
    ours = (paths.presence, paths.archive, paths.mail, paths.parts)
    theirs = (paths.quarantine, paths.inboxes, paths.tasks, paths.requests)
    folders = [*theirs, *ours, paths.spare_locks, paths.notes, paths.note_records]
    yield from _moved(paths, disk, folders=folders, files=[], fix=fix)
    files = [paths.events, paths.digests, paths.high_water, *_inside(ours)]
    yield from _moved(paths, disk, folders=[], files=files, fix=fix)


def _moved(
    paths: TeamPaths, disk: Disk, *, folders: Iterable[str], files: Iterable[str], fix: bool
) -> Iterator[Finding]:
    strangers = [(path, "it is not a folder") for path in folders if not os.path.isdir(path)]
    strangers += [(path, "it is not a regular file") for path in files if not is_file(path)]
    for path, what in strangers:
        if os.path.lexists(path):
            if fix:
                quarantine.move(paths, disk, path)
            yield quarantine.finding("in_the_way", path, what, _MOVED, fix=fix)


def _inside(folders: Iterable[str]) -> Iterator[str]:
    for folder in folders:
        if os.path.isdir(folder):
            yield from (os.path.join(folder, name) for name in sorted(list_folder(folder)))


def unreadable(writer: Writer, *, fix: bool) -> Iterator[Finding]:
    """Find heartbeats, mail states and archives that cannot be read."""
    paths = writer.paths
    for path in filter(is_file, _inside((paths.presence, paths.mail, paths.archive))):
        if path.endswith(".jsonl"):
            yield from _archive(path, writer, fix=fix)
        elif os.path.dirname(path) == paths.presence:
            yield from _taken_away(path, read_presence, writer, fix=fix)
        elif path.endswith(".injected.json"):
            yield from _taken_away(path, read_mail.load_injected, writer, fix=fix)


def _taken_away(
    path: str, read: Callable[[str], object], writer: Writer, *, fix: bool
) -> Iterator[Finding]:
    try:
        read(path)
    except Unreadable as error:
        if fix:
            quarantine.keep(writer.paths, writer.disk, path, read_bytes(path))
            writer.disk.unlink(path)
        yield quarantine.finding("unreadable", path, error.why, _MOVED, fix=fix)


def _archive(path: str, writer: Writer, *, fix: bool) -> Iterator[Finding]:
    # An archive grows with the history: all of it is read only to repair it.
    data = read_bytes(path) if fix else _end_of(path)
    *whole, unfinished = data.split(b"\n")
    lines = [line + b"\n" for line in whole]
    bad = [line for line in lines if not _is_archived(line)]
    if not bad:
        return
    if fix:
        quarantine.keep(writer.paths, writer.disk, path, b"".join(bad))
        good = b"".join(line for line in lines if _is_archived(line))
        writer.disk.replace(path, good + unfinished, nonce=nonce())
        writer.disk.sync_dir(writer.paths.archive)
    what = f"{len(bad)} line(s) are not messages"
    yield quarantine.finding("bad_row", path, what, "moved them to quarantine", fix=fix)


def _end_of(path: str) -> bytes:
    """Return the last lines of a file."""
    start = max(os.lstat(path).st_size - _CHECKED_BYTES, 0)
    data = read_bytes(path, start)
    return data[data.find(b"\n") + 1 :] if start else data


def _is_archived(line: bytes) -> bool:
    try:
        read_mail.parse_archived(line)
    except ValueError:
        return False
    return True
