"""The event log, which also records each commit before it is carried out.

A commit appends its event durably before it changes a record: at that moment it has happened.
`head` says how far the log has been carried out. The next process that takes the team lock carries
out what comes after that point, and removes an incomplete last line.

`head` is one block written in place: `seq` and `size` of what is done, the highest task id ever
used (`high`), the number of the last event that changed records (`rev`), and the version of the
format. Fields of a newer version stay in it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

from bullpen.errors import Unavailable, Unreadable
from bullpen.protocol import json_text
from bullpen.protocol.changes import Change, Event, UnknownChange, decode
from bullpen.protocol.format_version import FORMAT, version_in
from bullpen.store.events.checkpoint import BEGIN
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
    # Fields that only some homes have, such as `format`.
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def begin(self) -> int:
        """Return the number of the event that the log begins with the state of; 0 without one."""
        number: int = self.more.get("begin", 0)
        return number

    @property
    def base(self) -> int:
        """Return the length of the line that has this state; 0 without one."""
        number: int = self.more.get("base", 0)
        return number

    @property
    def kept(self) -> int:
        """Return the number of the first event that was not removed on purpose."""
        number: int = self.more.get("kept", 1)
        return number

    @property
    def format(self) -> str:
        """Return the version of the format that the team was written in."""
        return version_in(self.more)

    def encode(self) -> bytes:
        """Return the head as one block, always of the same length."""
        raw = {"seq": self.seq, "size": self.size, "high": self.high, "rev": self.rev, **self.more}
        block = json_text.dumps_line(raw).ljust(_HEAD_BYTES) + b"\n"
        if len(block) != _HEAD_BYTES + 1:
            raise Unavailable(
                f"The head of the log has no room for {', '.join(self.more)}.",
                remedy="Upgrade Bullpen, then try again. Nothing was changed.",
            )
        return block

    @classmethod
    def decode(cls, block: bytes) -> Head | None:
        """Return the head in a block; None if the block was never written or is damaged."""
        try:
            raw = json_text.loads(block[:_HEAD_BYTES])
            numbers = [raw.pop(name) for name in ("seq", "size", "high", "rev")]
        except (ValueError, KeyError, AttributeError, TypeError):
            return None
        numbers += [raw.get(name, 0) for name in ("begin", "base", "kept")]
        sound = all(type(n) is int and 0 <= n < _NUMBER_MAX for n in numbers)
        if not sound:
            return None
        seq, size, high, rev = numbers[:4]
        return cls(seq, size, high, rev, raw)


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

    def __init__(self, path: str, head_fd: int | None, disk: Disk) -> None:
        self.path, self._head_fd, self._disk = path, head_fd, disk
        block = b"" if head_fd is None else os.pread(head_fd, _HEAD_BYTES, 0)
        self._found = Head.decode(block)
        self.head = self._found or Head(more=_first_fields(path))

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
        if not trusted:
            known = {key: self.head.more[key] for key in self.head.more if key not in _FIRST}
            self.head = replace(self.head, more={**known, **_first_fields(self.path)})
        events, end, seq = [], start, self.head.seq if trusted else max(self.head.begin - 1, 0)
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

    def whole_size(self) -> int:
        """Return how much of the log can be read: what is carried out, or all its whole lines."""
        size = size_of(self.path)
        if self.is_trusted(size):
            return self.head.size
        return max((end for _, end in _lines(self.path, 0)), default=0)

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

    def opened(self) -> OpenLog:
        """Return the log as it is now, to be read without the lock."""
        return OpenLog(self.path, self.begin(), self.whole_size())

    def begin(self) -> int:
        """Return the event that the log begins with the state of, also if the head is not true."""
        if self.is_trusted(size_of(self.path)):
            return self.head.begin
        number: int = _first_fields(self.path).get("begin", 0)
        return number

    def finish(self, head: Head) -> None:
        """Record that everything up to `head` is carried out."""
        assert self._head_fd is not None, "only for whoever may write"
        self._disk.write_at(self._head_fd, head.encode(), 0, self.path)
        self._found = self.head = head


_FIRST = ("format", "begin", "base")


def _first_fields(path: str) -> dict[str, Any]:
    """Return what a lost or new head says of the first line of the log."""
    try:
        first, end = next(_lines(path, 0), ({"format": FORMAT}, 0))
    except Unreadable:
        return {}
    found = {"format": first["format"]} if "format" in first else {}
    return {**found, "begin": first["seq"], "base": end} if first.get("op") == BEGIN else found


def _lines(path: str, start: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield every complete line from byte `start` on, with where it ends."""
    try:
        fd = open_file(path)
    except FileNotFoundError:
        return
    with open(fd, "rb") as file:
        yield from _lines_of(file, path, start)


def _lines_of(file: BinaryIO, path: str, start: int) -> Iterator[tuple[dict[str, Any], int]]:
    end = start
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


def decoded(raw: dict[str, Any]) -> Event:
    """Return the event of a line. What this version does not know of it becomes unknown changes."""
    try:
        return Event.decode(raw)
    except (ValueError, KeyError):
        time, actor, op = (str(raw.get(key, "")) for key in ("time", "actor", "op"))
        rows = raw.get("changes")
        changes = rows if isinstance(rows, list) else [{"put": "unknown", "changes": rows}]
        return Event(raw["seq"], time, actor, op, tuple(map(_change, changes)))


def _change(raw: Any) -> Change:
    try:
        return decode(raw)
    except (ValueError, AttributeError):
        return UnknownChange(raw if isinstance(raw, dict) else {"put": "unknown", "value": raw})


def lines_after(path: str, start: int, stop: int) -> Iterator[dict[str, Any]]:
    """Return the events between two byte positions that are line boundaries."""
    for raw, end in _lines(path, start):
        yield raw
        if end >= stop:
            return


class OpenLog:
    """The newest part of a log at one moment. It stays readable when the log is split."""

    def __init__(self, path: str, begin: int, stop: int) -> None:
        self.path, self.begin, self._stop = path, begin, stop
        self._file = os.fdopen(open_file(path), "rb") if stop else None

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def lines_after(self, after: int) -> Iterator[dict[str, Any]]:
        """Return its events after number `after`."""
        if self._file is None:
            return
        start = self._find(self._file, after)
        if start >= self._stop:
            return
        for raw, end in _lines_of(self._file, self.path, start):
            if raw["seq"] > after:
                yield raw
            if end >= self._stop:
                return

    def _find(self, file: BinaryIO, after: int) -> int:
        """Return the byte at which the first event after `after` begins, by bisection."""
        low, high = 0, self._stop if after > 0 else 0
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
            if parse_line(line, self.path)["seq"] <= after:
                low = begin + len(line)
            else:
                high = begin
        return low


def event_line(event: Event, *, base: Sequence[str | None] = (), done: bool = False) -> bytes:
    """Return one line of the log. `done` says that it needs no carrying out.

    The event that a log begins with also has the version of the format.
    """
    raw = event.encode()
    changes = raw.pop("changes")
    if event.seq == 1 or event.op == BEGIN:
        raw["format"] = FORMAT
    if done:
        raw["done"] = True
    raw["changes"] = changes
    if any(base):
        raw["base"] = base
    return json_text.dumps_line(raw) + b"\n"
