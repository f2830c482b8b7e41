"""Repairs the log: its lines, its numbers, its head and unfinished commits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from bullpen.errors import Unreadable
from bullpen.protocol import json_text
from bullpen.protocol.changes import Event
from bullpen.protocol.format_version import FORMAT
from bullpen.store.contract import Finding
from bullpen.store.events.checkpoint import BEGIN, Checkpoint
from bullpen.store.files.disk import nonce, read_bytes
from bullpen.store.files.doctor import log_parts, quarantine
from bullpen.store.files.foreign import NewerCommit
from bullpen.store.files.log import event_log
from bullpen.store.files.log.parts import Part
from bullpen.store.files.log.split import begin_line
from bullpen.store.files.writer import Writer

_HOLE_MAX = 1_000
"""How many events in a row can be missing; a larger gap means a damaged number."""


def damaged_lines(writer: Writer, *, fix: bool) -> Iterable[Finding]:
    """Find lines that are not events, or are out of place.

    They are removed from the log. Empty events take the missing numbers, so that a reader that has
    reached some number still finds what comes after it.
    """
    path, head = writer.paths.events, writer.log.head
    data = b""
    with suppress(FileNotFoundError):
        data = read_bytes(path)
    trusted = writer.log.is_trusted(len(data))
    size = head.size if trusted else data.rfind(b"\n") + 1
    lines = [line + b"\n" for line in data[:size].split(b"\n")[:-1]]
    older = log_parts.parts_of(writer)
    start = _start(lines, head.begin if trusted else None, older)
    kept, gone = mended(lines, start=start, last=head.seq if trusted else 0)
    base = 0
    if start > 1:
        kept = _with_begin(kept, start, older)
        base = len(kept[0])
    # Without a plausible head, the last line may be a commit that was not carried out.
    done = kept if trusted or not kept or _is_done(kept[-1]) else kept[:-1]
    sound = kept == lines
    if fix and not sound:
        if gone:
            quarantine.keep(writer.paths, writer.disk, path, b"".join(gone))
        writer.disk.replace(path, b"".join(kept) + data[size:], nonce=nonce())
        # It counts the bytes of the log before the repair.
        writer.disk.unlink(writer.paths.digests)
        writer.files.digests = None
    last = start + len(done) - 1
    if fix:
        more = {**head.more, "begin": start, "base": base} if base else head.more
        writer.log.finish(replace(head, seq=last, size=sum(map(len, done)), more=more))
    if sound and (not trusted or head.seq == start + len(kept) - 1):
        return
    what = f"{len(gone)} line(s) cannot be read" if gone else "numbers are missing"
    action = "moved them to quarantine" if gone else "added empty events"
    yield quarantine.finding("damaged_log", path, what, action, fix=fix)


def _start(lines: Sequence[bytes], begin: int | None, older: Sequence[Part]) -> int:
    """Return the number of the first line: where the head says, or as the first good line does."""
    if begin is not None:
        return max(begin, 1)
    for index, line in enumerate(lines):
        if number := _number(line):
            raw = event_log.parse_line(line, "")
            return max(number - index, 1) if older or raw.get("op") == BEGIN else 1
    return 1


def _with_begin(kept: list[bytes], begin: int, older: Sequence[Part]) -> list[bytes]:
    """Return the lines with the state that they begin with; a lost one is made again."""
    if kept and event_log.parse_line(kept[0], "").get("op") == BEGIN:
        return kept
    state = Checkpoint()
    previous = next((part for part in older if part.last == begin), None)
    # Without it, everything is logged again as it is now.
    with suppress(Unreadable, FileNotFoundError):
        for raw in previous.lines() if previous is not None else ():
            state.take(raw)
    state.seq = begin
    line = begin_line(state, "" if previous is None else previous.name, FORMAT)
    return [line, *kept[1:]]


def mended(lines: Sequence[bytes], *, start: int = 1, last: int) -> tuple[list[bytes], list[bytes]]:
    """Return the lines with all numbers from `start` to `last`, gaps filled, and other lines."""
    numbers = [_number(line) for line in lines]
    # For every line, the number of the next line that has one.
    following: list[int | None] = [None] * len(lines)
    for index in range(len(lines) - 2, -1, -1):
        following[index] = numbers[index + 1] or following[index + 1]
    kept: list[bytes] = []
    gone: list[bytes] = []
    for line, number, next_number in zip(lines, numbers, following, strict=True):
        expected = start + len(kept)
        # A gap must lead to a later line; otherwise the number itself is damaged.
        leads_on = next_number is None or (number or 0) < next_number
        if number == expected or (number and 0 < number - expected <= _HOLE_MAX and leads_on):
            kept += [_empty(missing) for missing in range(expected, number)]
            kept.append(line)
        else:
            gone.append(line)
    following_number = start + len(kept)
    if 0 <= last - following_number < len(gone):
        kept += [_empty(missing) for missing in range(following_number, last + 1)]
    return kept, gone


def _number(line: bytes) -> int | None:
    """Return the number of a line that is JSON and has one, also if it is of a newer version."""
    try:
        number: int = event_log.parse_line(line, "")["seq"]
    except Unreadable:
        return None
    return number


def _is_done(line: bytes) -> bool:
    return bool(event_log.parse_line(line, "").get("done"))


def _empty(seq: int) -> bytes:
    event = Event(seq, "", "doctor", "damaged", ())
    return json_text.dumps_line({**event.encode(), "done": True}) + b"\n"


def half_done(writer: Writer, *, fix: bool) -> Iterable[Finding]:
    """Find commits that are in the log but not carried out, and an incomplete last line."""
    path = writer.paths.events
    if event_log.size_of(path) == writer.log.head.size:
        return
    action = ""
    if fix:
        try:
            redone = writer.log.catch_up(writer.redo)
            action = (
                f"carried out {redone} commit(s)" if redone else "removed the incomplete last line"
            )
        except NewerCommit as error:
            yield Finding("half_done", path, str(error))
            return
        except Unreadable:
            rest = read_bytes(path, writer.log.head.size)
            quarantine.keep(writer.paths, writer.disk, path, rest)
            writer.log.cut_off()
            action = "moved what cannot be carried out to quarantine"
    what = "a process died in the middle of a commit"
    yield Finding("half_done", path, what, fixed=fix, action=action)
