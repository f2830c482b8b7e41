"""Moves the older half of a log that has grown long into a compressed part.

The part is durable before the log is replaced by what is left of it, and the log before the head.
Killed in between, the log is still whole, or the head says more bytes than the log has: then it is
read again from its beginning. What is left is always shorter than before, so that this is noticed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bullpen.protocol import json_text
from bullpen.protocol.format_version import FORMAT, is_newer
from bullpen.store.events.checkpoint import BEGIN, Checkpoint
from bullpen.store.files.disk import Disk, nonce, read_bytes
from bullpen.store.files.log import event_log, parts
from bullpen.store.files.log.event_log import Log
from bullpen.store.files.paths import TeamPaths

_NAME_BYTES = 200
"""More than the name of a part and a version need in a line."""


@dataclass(frozen=True, slots=True)
class PartSize:
    """When a part is full. A log is split when it has twice as much."""

    events: int = 5_000
    bytes: int = 8 * 1024 * 1024
    # How many parts one split makes of a log that was never split before.
    at_once: int = 10


def is_due(log: Log, size: PartSize) -> bool:
    """Return whether a log is long enough to be split."""
    head = log.head
    events, own = head.seq - head.begin, head.size - head.base
    return (events >= 2 * size.events or own >= 2 * size.bytes) and own >= 2 * head.base


def split(log: Log, paths: TeamPaths, disk: Disk, size: PartSize) -> bool:
    """Split a log whose events are all carried out. The caller holds the team lock.

    Returns False if there is nothing to gain: the state of the team is as long as its history.
    """
    head = log.head
    version = head.format if is_newer(head.format) else FORMAT
    cut = _cut(read_bytes(paths.events)[: head.size], head.base, size, paths.parts, version)
    if not cut.files:
        return False
    disk.ensure_dir(paths.parts)
    for part in parts.listed(paths.parts):
        if part.last > head.begin:
            disk.unlink(part.path)  # Of a process that died here.
    for part, content in cut.files:
        disk.replace(part.path, content, nonce=nonce())
    disk.sync_dir(paths.parts)
    disk.sync_dir(paths.own)
    disk.unlink(paths.digests)  # They count the bytes of the log before.
    disk.replace(paths.events, cut.rest, nonce=nonce())
    disk.sync_dir(paths.own)
    begin = cut.files[-1][0].last
    more = {**head.more, "begin": begin, "base": cut.base, "format": version}
    log.finish(replace(head, size=len(cut.rest), more=more))
    return True


@dataclass(frozen=True, slots=True)
class _Cut:
    """The parts to make of a log, and what is left of it."""

    files: list[tuple[parts.Part, bytes]]
    rest: bytes
    base: int


def _cut(data: bytes, base: int, size: PartSize, folder: str, version: str) -> _Cut:
    lines = [line + b"\n" for line in data[base:].split(b"\n")[:-1]]
    state, first_line, index, left = Checkpoint(), data[:base], 0, len(data) - base
    if first_line:
        state.take(event_log.parse_line(first_line, folder))
    files: list[tuple[parts.Part, bytes]] = []
    while len(files) < size.at_once:
        begin = state.seq
        taken = _take(lines[index:], left, state, len(first_line), size)
        if not taken:
            break
        chunk = b"".join([first_line, *lines[index : index + taken]])
        index, left = index + taken, left - len(chunk) + len(first_line)
        files.append(parts.packed(folder, begin + 1, state.seq, chunk))
        first_line = begin_line(state, files[-1][0].name, version)
    return _Cut(files, b"".join([first_line, *lines[index:]]), len(first_line))


def _take(lines: list[bytes], left: int, state: Checkpoint, least: int, size: PartSize) -> int:
    """Add the lines of the next part to the state. Returns how many; 0 if there is no next part.

    As many remain as make a part, and it is longer than the state that the rest will begin with.
    """
    taken = 0
    for count, line in enumerate(lines, 1):
        if len(lines) - count < size.events and left - taken - len(line) < size.bytes:
            return 0
        state.take(event_log.parse_line(line, ""))
        taken += len(line)
        if (count >= size.events or taken >= size.bytes) and taken > least:
            least = len(begin_line(state, "", "")) + _NAME_BYTES
            if taken > least:
                return count
    return 0


def begin_line(state: Checkpoint, previous: str, version: str) -> bytes:
    """Return the line that a log begins with after the part called `previous`."""
    raw = {
        "seq": state.seq,
        "time": state.time,
        "actor": "bullpen",
        "op": BEGIN,
        "format": version,
        "previous": previous,
        "done": True,
        "changes": state.changes(),
    }
    return json_text.dumps_line(raw) + b"\n"
