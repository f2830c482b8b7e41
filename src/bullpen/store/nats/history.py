"""The events of a team that left its log: in parts, one after another in one subject."""

from __future__ import annotations

import asyncio
import bisect
import time
from collections.abc import Iterator, Sequence

from bullpen.errors import Unavailable
from bullpen.protocol import jsontext
from bullpen.store.nats import wire
from bullpen.store.nats.connection import Connection
from bullpen.store.nats.kept import Part
from bullpen.store.nats.subjects import Address
from bullpen.store.nats.wire import HeadMoved, NoAnswer, Row

_PART_BYTES_MAX = 512 * 1024
_READ_S = 5.0
_AT_ONCE = 8


def slices(lines: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """The lines in parts that are no longer than a part may be; one line is always a part."""
    start = size = 0
    for index, line in enumerate(lines):
        if index > start and size + len(line) > _PART_BYTES_MAX:
            yield lines[start:index]
            start, size = index, 0
        size += len(line)
    if start < len(lines):
        yield lines[start:]


class History:
    """The parts of one team's history, in one subject. What is stored in it never changes."""

    def __init__(self, link: Connection, address: Address) -> None:
        self._link = link
        self._address = address

    async def store(
        self, parts: list[Part], first: int, lines: Sequence[bytes], *, timeout_s: float
    ) -> int:
        """Store a part that begins with an event; returns how many of the events are stored.

        `parts` are those that are known, and get what is new. Somebody may have stored others
        since, and was killed before he went on: his count. Raises NoAnswer and ApiError.
        """
        client = await self._link.client()
        last = parts[-1].seq if parts else 0
        try:
            seq = await wire.append(
                client,
                self._address.history,
                b"\n".join(lines),
                expect=last,
                timeout_s=timeout_s,
            )
        except HeadMoved as moved:
            return await self._others(parts, first, last, moved.head, timeout_s)
        parts.append(Part(first, seq))
        return len(lines)

    async def _others(
        self, parts: list[Part], first: int, last: int, head: int | None, timeout_s: float
    ) -> int:
        """Take in the parts that others stored; how many events from one on are in them."""
        reader = await self._link.reader()
        stream, subject = self._address.stream, self._address.history
        rows = await reader.rows(stream, subject, last + 1, timeout_s=timeout_s)
        if not rows or (head or 0) > rows[-1].seq:
            raise NoAnswer("the replicas are behind")
        stored = 0
        for row in rows:
            lines = row.data.split(b"\n")
            begins = int(jsontext.loads_line(lines[0])["seq"])
            parts.append(Part(begins, row.seq))
            if begins <= first + stored:
                stored = max(stored, begins + len(lines) - first)
        return stored

    async def lines(self, parts: Sequence[Part], after: int, count: int) -> list[bytes]:
        """So many events past a number, which must all be here. Raises Unavailable."""
        found: list[bytes] = []
        number = after
        # Parts may overlap: each gives what those before it have not.
        at = max(0, bisect.bisect_right(parts, after + 1, key=lambda part: part.first) - 1)
        while len(found) < count and at < len(parts):
            wanted = parts[at : at + _AT_ONCE]
            for part, row in zip(wanted, await self._rows(wanted), strict=True):
                if number + 1 < part.first:
                    raise self._lacking(number + 1)
                fresh = row.data.split(b"\n")[number + 1 - part.first :]
                found += fresh
                number += len(fresh)
            at += len(wanted)
        if len(found) < count:
            raise self._lacking(number + 1)
        return found[:count]

    async def _rows(self, wanted: Sequence[Part]) -> list[Row]:
        """Parts that follow one another. A replica may be behind, so it is asked several times."""
        reader = await self._link.reader()
        stream, subject = self._address.stream, self._address.history
        deadline = time.monotonic() + _READ_S
        why = "it is not there"
        while time.monotonic() < deadline:
            try:
                rows = await reader.rows(
                    stream, subject, wanted[0].seq, timeout_s=1.0, limit=len(wanted)
                )
                if [row.seq for row in rows] == [part.seq for part in wanted]:
                    return rows
            except NoAnswer as error:
                why = str(error)
            await asyncio.sleep(0.02)
        raise Unavailable(
            f"The history of team {self._address.team!r} from event {wanted[0].first} on cannot be"
            f" read: {why}.",
            remedy="See `bullpen server status`, then try again.",
        )

    def _lacking(self, number: int) -> Unavailable:
        return Unavailable(
            f"The history of team {self._address.team!r} lacks event {number}.",
            remedy="A replica may have lost messages: run `bullpen server check`.",
        )
