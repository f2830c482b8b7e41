"""The event log, which also records each commit before it is carried out.

A commit appends its event durably before it changes a record: at that moment it has happened.
`head` says how far the log has been carried out. The next process that takes the team lock carries
out what comes after that point, and removes an incomplete last line.

`head` is one block written in place: `seq` and `size` of what is done, the highest task id ever
used (`high`) and the number of the last event that changed records (`rev`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bullpen.errors import Unreadable
from bullpen.protocol import json_text
from bullpen.protocol.changes import Event
from bullpen.store.files.disk import Disk, not_a_file, open_file, read_bytes

_HEAD_BYTES = 255
_NUMBER_MAX = 2**62


@dataclass(frozen=True, slots=True)
class Head:
    """How far the log has been carried out."""

    seq: int = 0
    size: int = 0
    high: int = 0
    rev: int = 0

    def encode(self) -> bytes:
        """Return the head as one block, always of the same length."""
        raw = {"seq": self.seq, "size": self.size, "high": self.high, "rev": self.rev}
        return json_text.dumps_line(raw).ljust(_HEAD_BYTES) + b"\n"

    @classmethod
    def decode(cls, block: bytes) -> Head | None:
        """Return the head in a block; None if the block was never written or is damaged."""
        try:
            raw = json_text.loads(block[:_HEAD_BYTES])
            head = cls(**raw)
        except (ValueError, TypeError):
            return None
        numbers = (head.seq, head.size, head.high, head.rev)
        return head if all(type(n) is int and 0 <= n < _NUMBER_MAX for n in numbers) else None


def read_head(path: str) -> Head | None:
    """Return the head, without a lock; None if there is none yet."""
    try:
        return Head.decode(read_bytes(path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def size_of(path: str) -> int:
    """Return the log's length in bytes; 0 if there is none yet."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    if not stat.S_ISREG(found.st_mode):
        raise not_a_file(path)
    return found.st_size


def ends_line(path: str, size: int) -> bool:
    """Return whether this many bytes of the log are whole lines."""
    try:
        fd = open_file(path)
    except FileNotFoundError:
        return size == 0
    try:
        return _ends_line(fd, size)
    finally:
        os.close(fd)


def _ends_line(fd: int, size: int) -> bool:
    return size == 0 or os.pread(fd, 1, size - 1) == b"\n"


class Log:
    """The log, for the process that holds the team lock."""

    def __init__(self, path: str, head_fd: int, disk: Disk) -> None:
        self.path, self._head_fd, self._disk = path, head_fd, disk
        self._found = Head.decode(os.pread(head_fd, _HEAD_BYTES, 0))
        self.head = self._found or Head()

    def catch_up(self, redo: Callable[[dict[str, Any]], None]) -> int:
        """Carry out what a dead process had started. Returns the number of commits."""
        size = size_of(self.path)
        if self._found is not None and size == self.head.size:
            return 0
        pending, seq, end = self._pending(size)
        for raw in pending:
            redo(raw)
        if end < size:
            self._cut(end)
        self.finish(replace(self.head, seq=seq, size=end, rev=self.head.rev + len(pending)))
        return len(pending)

    def _pending(self, size: int) -> tuple[list[dict[str, Any]], int, int]:
        """Return the events that may not be carried out yet, the last number and where it ends."""
        trusted = self.is_trusted(size)
        start = self.head.size if trusted else 0
        events, end, seq = [], start, self.head.seq if trusted else 0
        for raw, line_end in _lines(self.path, start):
            if raw["seq"] != seq + 1:
                raise Unreadable(self.path, f"event {raw['seq']} cannot follow event {seq}")
            events.append(raw)
            seq, end = raw["seq"], line_end
        if not trusted:
            # The head or the end of the log is lost: all but the last event were carried out.
            del events[:-1]
        return [raw for raw in events if not raw.get("done")], seq, end

    def is_trusted(self, size: int) -> bool:
        """Return whether the head is plausible for a log of this length."""
        known = self._found is not None and size >= self.head.size
        return known and ends_line(self.path, self.head.size)

    def _cut(self, size: int) -> None:
        fd = open_file(self.path, os.O_WRONLY)
        try:
            self._disk.truncate(fd, size, self.path)
            self._disk.sync(fd, self.path)
        finally:
            os.close(fd)

    def append(self, lines: bytes, *, durable: bool) -> int:
        """Append whole lines. Returns the new length of the log."""
        fd = open_file(self.path, os.O_RDWR | os.O_CREAT)
        try:
            if not _ends_line(fd, self.head.size):
                raise Unreadable(self.path, "its last line is damaged")
            try:
                self._disk.write_at(fd, lines, self.head.size, self.path)
                if durable:
                    self._disk.sync(fd, self.path)
            except OSError:
                # The disk may be full: an incomplete line must not look like a commit.
                os.ftruncate(fd, self.head.size)
                raise
        finally:
            os.close(fd)
        return self.head.size + len(lines)

    def cut_off(self) -> None:
        """Remove everything after the head."""
        self._cut(self.head.size)

    def finish(self, head: Head) -> None:
        """Record that everything up to `head` is carried out."""
        self._disk.write_at(self._head_fd, head.encode(), 0, self.path)
        self._found = self.head = head


def _lines(path: str, start: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield every complete line from byte `start` on, with where it ends."""
    end = start
    try:
        fd = open_file(path)
    except FileNotFoundError:
        return
    with open(fd, "rb") as file:
        file.seek(start)
        for line in file:
            if not line.endswith(b"\n"):
                return
            end += len(line)
            yield parse_line(line, path), end


def parse_line(line: bytes, path: str) -> dict[str, Any]:
    """Parse one line of the log."""
    try:
        raw = json_text.loads_line(line)
        if not (isinstance(raw, dict) and type(raw.get("seq")) is int):
            raise ValueError("not an event")
    except ValueError as error:
        raise Unreadable(path, f"a line is damaged ({error})") from None
    return raw


def lines_after(path: str, start: int, stop: int) -> Iterator[dict[str, Any]]:
    """Return the events between two byte positions that are line boundaries."""
    for raw, end in _lines(path, start):
        yield raw
        if end >= stop:
            return


def find(path: str, after: int, stop: int) -> int:
    """Return the byte at which the first event after `after` begins, by bisection."""
    low, high = 0, stop if after > 0 else 0
    if not high:
        return 0
    with open(open_file(path), "rb") as file:
        while low < high:
            middle = (low + high) // 2
            file.seek(middle)
            file.readline()
            begin = file.tell()
            if begin >= high:
                # No line begins between the middle and `high`: look at the one at `low`.
                begin = low
                file.seek(low)
            line = file.readline()
            if parse_line(line, path)["seq"] <= after:
                low = begin + len(line)
            else:
                high = begin
    return low


def event_line(event: Event, *, base: Sequence[str | None] = (), done: bool = False) -> bytes:
    """Return one line of the log. `done` says that it needs no carrying out."""
    raw = event.encode()
    changes = raw.pop("changes")
    if done:
        raw["done"] = True
    raw["changes"] = changes
    if any(base):
        raw["base"] = base
    return json_text.dumps_line(raw) + b"\n"
