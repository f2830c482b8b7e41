"""The last events of a team: those not yet in a snapshot or the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bullpen.protocol import json_text
from bullpen.protocol.changes import Event, PutNote
from bullpen.store.nats.log.packing import format_of_notes

EVENTS_KEPT = 64
"""The least events a log has before a snapshot replaces them."""

_BYTES_MAX = 256 * 1024
_IDS_KEPT = 256
_PUT_OFF = 16
_VERSIONS = (1, 2)


def event_line(
    event: Event,
    eid: str,
    prev: int,
    version: str,
    more: Mapping[str, object] | None = None,
    *,
    alone: bool = True,
) -> bytes:
    """Return the line of an event in the message after `prev`; the first one says its format.

    `alone` says that the message has no other event.
    """
    raw = {"v": 1 if alone else 2, "eid": eid, "prev": prev, **event.encode()}
    if event.seq == 1:
        raw["format"] = version
    if any(isinstance(change, PutNote) for change in event.changes):
        raw["format"] = format_of_notes(version)
    if more:
        raw |= more
    return json_text.dumps_line(raw)


@dataclass(frozen=True, slots=True)
class TailLine:
    """One line of a log: an event, or a snapshot of everything up to one."""

    raw: dict[str, Any]

    @classmethod
    def parse(cls, data: bytes) -> TailLine:
        """Parse a line. Raises ValueError."""
        raw = json_text.loads_line(data)
        if not isinstance(raw, dict) or raw.get("v") not in _VERSIONS:
            raise ValueError("its version is unknown, perhaps a newer one of Bullpen")
        return cls(raw)

    @property
    def snapshot(self) -> dict[str, Any] | None:
        """Return the snapshot, if it is one."""
        return self.raw.get("snapshot")

    @property
    def tail(self) -> list[bytes]:
        """Return the last events before a snapshot, if the history does not have them yet."""
        return [line.encode() for line in self.raw.get("tail", ())]

    @property
    def moved_to(self) -> int | None:
        """Return the partition in which the team goes on, if this was its last message here."""
        return self.raw.get("moved_to")

    @property
    def is_last(self) -> bool:
        """Return whether it deleted the team."""
        return self.raw.get("gone") is True


class LogTail:
    """The events of a team from some event to the last."""

    def __init__(self, events_kept: int = EVENTS_KEPT) -> None:
        self.lines: list[bytes] = []
        self.in_history = 0
        self._events_kept = events_kept
        self._last = 0
        self._bytes = 0
        self._snapshot_bytes = 0
        self._not_before = 0
        self._ids: dict[int, str] = {}

    @property
    def not_in_history(self) -> list[bytes]:
        """Return the events that are stored nowhere else, as far as known."""
        return self.lines[self.in_history :]

    def add(self, number: int, eid: str, line: bytes) -> None:
        """Add the next event, with that number."""
        self.lines.append(line)
        self._last = number
        self._bytes += len(line)
        self._ids[number] = eid
        self._ids.pop(number - _IDS_KEPT, None)

    def shortened(self, lines: Sequence[bytes], number: int, snapshot_bytes: int) -> None:
        """Start again with a snapshot of everything up to an event, which brings these along."""
        self.lines, self.in_history, self._last = list(lines), 0, number
        self._bytes, self._snapshot_bytes = sum(map(len, lines)), snapshot_bytes

    def id_of(self, number: int) -> str | None:
        """Return the id of an event with that number, if it is among the last."""
        at = number - self._last - 1
        if number not in self._ids and -len(self.lines) <= at < 0:
            return self.learned(number, self.lines[at])
        return self._ids.get(number)

    def learned(self, number: int, line: bytes) -> str:
        """Remember the id of an event that was found, and return it."""
        self._ids[number] = str(json_text.loads_line(line).get("eid"))
        return self._ids[number]

    @property
    def is_long(self) -> bool:
        """Return whether a snapshot is worth what it takes to write."""
        if self._last < self._not_before:
            return False
        if self._bytes > _BYTES_MAX:
            return self._bytes * 4 > self._snapshot_bytes
        return len(self.lines) >= self._events_kept and self._bytes * 2 > self._snapshot_bytes

    def put_off(self) -> None:
        """Leave the snapshot to others for a while: they write all the time."""
        self._not_before = self._last + _PUT_OFF
