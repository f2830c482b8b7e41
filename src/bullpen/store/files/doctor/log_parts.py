"""Checks the older parts of a log: that none is missing, and that none was changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from bullpen.errors import Unreadable
from bullpen.store.contract import Finding
from bullpen.store.files.doctor import quarantine
from bullpen.store.files.log import parts
from bullpen.store.files.writer import Writer


def parts_of(writer: Writer) -> list[parts.Part]:
    """Return all parts that are there; none if something is in the way of their folder."""
    with suppress(Unreadable):
        return parts.listed(writer.paths.parts)
    return []


def check(writer: Writer, *, fix: bool) -> Iterator[Finding]:
    """Find parts that are missing, changed, or left behind by a dead process."""
    kept, begin, folder = writer.log.head.kept, writer.log.begin(), writer.paths.parts
    expected = kept
    for part in parts_of(writer):
        if part.last > begin or part.last < kept:
            if fix:
                writer.disk.unlink(part.path)
            what = "left behind by a process that died while it moved events"
            yield quarantine.finding("leftover", part.path, what, "removed it", fix=fix)
            continue
        if part.first > expected:
            yield _missing(folder, expected, part.first - 1)
        expected = part.last + 1
        if not part.is_sound():
            if fix:
                quarantine.move(writer.paths, writer.disk, part.path)
            what = "its content is not what was written"
            action = "moved it to quarantine; replace it from a backup"
            yield quarantine.finding("damaged_part", part.path, what, action, fix=fix)
    if expected <= begin:
        yield _missing(folder, expected, begin)


def _missing(folder: str, first: int, last: int) -> Finding:
    what = f"events {first} to {last} of the history are missing: restore their file from a backup"
    return Finding("missing_part", folder, what)
