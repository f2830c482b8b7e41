"""Mending the log: its lines, its numbers, its head, and what a dead process left half done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from bullpen.errors import Unreadable
from bullpen.protocol import jsontext
from bullpen.protocol.changes import Event
from bullpen.store.base import Finding
from bullpen.store.files import log, quarantine
from bullpen.store.files.disk import read_bytes
from bullpen.store.files.nonce import nonce
from bullpen.store.files.writer import Writer

_HOLE_MAX = 1_000
"""How many events in a row can be missing; a greater step is a damaged number."""


def damaged_lines(writer: Writer, *, fix: bool) -> Iterable[Finding]:
    """Lines that are no events, or stand where they should not.

    They leave the log. Empty events take the numbers that are missing then, so that whoever has
    read up to some number still finds what comes after it.
    """
    path, head = writer.paths.events, writer.log.head
    data = b""
    with suppress(FileNotFoundError):
        data = read_bytes(path)
    trusted = writer.log.is_trusted(len(data))
    size = head.size if trusted else data.rfind(b"\n") + 1
    lines = [line + b"\n" for line in data[:size].split(b"\n")[:-1]]
    kept, gone = mended(lines, last=head.seq if trusted else 0)
    # Without a head that can be true, the last line may be a commit that was not carried out.
    done = kept if trusted or not kept or _is_done(kept[-1]) else kept[:-1]
    sound = kept == lines
    if fix and not sound:
        if gone:
            quarantine.keep(writer.paths, writer.disk, path, b"".join(gone))
        writer.disk.replace(path, b"".join(kept) + data[size:], nonce=nonce())
        # It counts the bytes of the log as it was.
        writer.disk.unlink(writer.paths.ledger)
        writer.files.ledger = None
    if fix:
        writer.log.finish(replace(head, seq=len(done), size=sum(map(len, done))))
    if sound and (not trusted or head.seq == len(kept)):
        return
    yield Finding(
        "damaged_log",
        path,
        f"{len(gone)} line(s) cannot be read" if gone else "its numbers have a hole",
        fixed=fix,
        action=("moved them to the quarantine" if gone else "filled it") if fix else "",
    )


def mended(lines: Sequence[bytes], *, last: int) -> tuple[list[bytes], list[bytes]]:
    """The lines with all numbers from 1 on, up to `last` where lines are missing, and the rest."""
    numbers = [_number(line) for line in lines]
    # Of every line, the number of the next one that has any.
    following: list[int | None] = [None] * len(lines)
    for index in range(len(lines) - 2, -1, -1):
        following[index] = numbers[index + 1] or following[index + 1]
    kept: list[bytes] = []
    gone: list[bytes] = []
    for line, number, next_number in zip(lines, numbers, following, strict=True):
        expected = len(kept) + 1
        # A step over missing numbers must lead somewhere, or it is the number that is damaged.
        leads_on = next_number is None or (number or 0) < next_number
        if number == expected or (number and 0 < number - expected <= _HOLE_MAX and leads_on):
            kept += [_empty(missing) for missing in range(expected, number)]
            kept.append(line)
        else:
            gone.append(line)
    if 0 < last - len(kept) <= len(gone):
        kept += [_empty(missing) for missing in range(len(kept) + 1, last + 1)]
    return kept, gone


def _number(line: bytes) -> int | None:
    try:
        return Event.decode(log.parse_line(line, "")).seq
    except (Unreadable, ValueError):
        return None


def _is_done(line: bytes) -> bool:
    return bool(log.parse_line(line, "").get("done"))


def _empty(seq: int) -> bytes:
    event = Event(seq, "", "doctor", "damaged", ())
    return jsontext.dumps_line({**event.encode(), "done": True}) + b"\n"


def half_done(writer: Writer, *, fix: bool) -> Iterable[Finding]:
    """Commits that are in the log and were not carried out, and a last line that is no line."""
    path = writer.paths.events
    if log.size_of(path) == writer.log.head.size:
        return
    action = ""
    if fix:
        try:
            redone = writer.log.catch_up(writer.redo)
            action = f"carried out {redone} commit(s)" if redone else "cut off the unfinished end"
        except Unreadable:
            rest = read_bytes(path, writer.log.head.size)
            quarantine.keep(writer.paths, writer.disk, path, rest)
            writer.log.cut_off()
            action = "moved what cannot be carried out to the quarantine"
    what = "a process died in the middle of a commit"
    yield Finding("half_done", path, what, fixed=fix, action=action)
