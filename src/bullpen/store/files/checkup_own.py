"""Mending what only Bullpen looks at, and what stands in the way of files and folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from bullpen.errors import Unreadable
from bullpen.store.base import Finding
from bullpen.store.files import mailbox, quarantine
from bullpen.store.files.disk import Disk, list_folder, read_bytes
from bullpen.store.files.nonce import nonce
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.records import read_presence
from bullpen.store.files.writer import Writer


def in_the_way_of_the_lock(paths: TeamPaths, disk: Disk, *, fix: bool) -> Iterator[Finding]:
    """What keeps everybody from taking the team lock; nobody needs it to be moved away."""
    yield from _moved(paths, disk, folders=[paths.own], files=[paths.head], fix=fix)


def in_the_way(paths: TeamPaths, disk: Disk, *, fix: bool) -> Iterator[Finding]:
    """What is no folder where a folder should be, and no file where a file of ours should be."""
    ours = (paths.presence, paths.archive, paths.mail)
    folders = [paths.quarantine, paths.inboxes, paths.tasks, paths.requests, *ours]
    folders.append(paths.spare_locks)
    yield from _moved(paths, disk, folders=folders, files=[], fix=fix)
    files = [paths.events, paths.ledger, paths.high_water, *(path for path in _inside(ours))]
    yield from _moved(paths, disk, folders=[], files=files, fix=fix)


def _moved(
    paths: TeamPaths, disk: Disk, *, folders: Iterable[str], files: Iterable[str], fix: bool
) -> Iterator[Finding]:
    strangers = [(path, "it is not a folder") for path in folders if not os.path.isdir(path)]
    strangers += [(path, "it is not a regular file") for path in files if not _is_file(path)]
    for path, what in strangers:
        if os.path.lexists(path):
            if fix:
                quarantine.move(paths, disk, path)
            action = "moved it to the quarantine" if fix else ""
            yield Finding("in_the_way", path, what, fixed=fix, action=action)


_is_file = quarantine.is_file


def _inside(folders: Iterable[str]) -> Iterator[str]:
    for folder in folders:
        if os.path.isdir(folder):
            yield from (os.path.join(folder, name) for name in sorted(list_folder(folder)))


def unreadable(writer: Writer, *, fix: bool) -> Iterator[Finding]:
    """Heartbeats, notes about mail and archives that cannot be read."""
    paths = writer.paths
    for path in filter(_is_file, _inside((paths.presence, paths.mail, paths.archive))):
        if path.endswith(".jsonl"):
            yield from _archive(path, writer, fix=fix)
        elif os.path.dirname(path) == paths.presence:
            yield from _taken_away(path, read_presence, writer, fix=fix)
        elif path.endswith(".injected.json"):
            yield from _taken_away(path, mailbox.load_injected, writer, fix=fix)


def _taken_away(
    path: str, read: Callable[[str], object], writer: Writer, *, fix: bool
) -> Iterator[Finding]:
    try:
        read(path)
    except Unreadable as error:
        if fix:
            quarantine.keep(writer.paths, writer.disk, path, read_bytes(path))
            writer.disk.unlink(path)
        action = "moved it to the quarantine" if fix else ""
        yield Finding("unreadable", path, error.why, fixed=fix, action=action)


def _archive(path: str, writer: Writer, *, fix: bool) -> Iterator[Finding]:
    data = read_bytes(path)
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
    yield Finding(
        "bad_row",
        path,
        f"{len(bad)} line(s) are no messages",
        fixed=fix,
        action="moved them to the quarantine" if fix else "",
    )


def _is_archived(line: bytes) -> bool:
    try:
        mailbox.parse_archived(line)
    except ValueError:
        return False
    return True
