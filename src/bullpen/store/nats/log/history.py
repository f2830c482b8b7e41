"""Events of a team that left its log: history blocks, one after another in one subject."""

from __future__ import annotations

import asyncio
import bisect
import time
from collections.abc import Iterator, Sequence

from bullpen.errors import Unavailable
from bullpen.protocol import json_text
from bullpen.store.nats.client import api_requests
from bullpen.store.nats.client.api_requests import HeadMoved, NoAnswer, StoredRow
from bullpen.store.nats.client.connection import NatsConnection
from bullpen.store.nats.client.subjects import Address
from bullpen.store.nats.log.packing import is_packed, pack_block, unpack_block
from bullpen.store.nats.log.state import HistoryPart, LogState

_PART_BYTES_MAX = 512 * 1024
_READ_S = 5.0
_AT_ONCE = 8


def slices(lines: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Return the lines in blocks of at most the allowed length; one line is always a block."""
    start = size = 0
    for index, line in enumerate(lines):
        if index > start and size + len(line) > _PART_BYTES_MAX:
            yield lines[start:index]
            start, size = index, 0
        size += len(line)
    if start < len(lines):
        yield lines[start:]


class LogHistory:
    """The history blocks of one team, in one subject. What is stored there never changes."""

    def __init__(self, link: NatsConnection, address: Address) -> None:
        self._link = link
        self._address = address

    async def store(
        self, kept: LogState, first: int, lines: Sequence[bytes], *, timeout_s: float
    ) -> int:
        """Store a block that begins with an event. Returns how many of the events are stored.

        New blocks are added to those that `kept` knows. Another host may have stored blocks and
        been killed before it continued: those count. Raises NoAnswer, ApiError and Unavailable.
        """
        client, parts = await self._link.client(), kept.parts
        last = parts[-1].seq if parts else 0
        try:
            seq = await api_requests.append(
                client,
                self._address.history,
                pack_block(lines, compressed=is_packed(kept.format)),
                expect=last,
                timeout_s=timeout_s,
            )
        except HeadMoved as moved:
            return await self._others(parts, first, last, moved.head, timeout_s)
        parts.append(HistoryPart(first, seq))
        return len(lines)

    async def _others(
        self, parts: list[HistoryPart], first: int, last: int, head: int | None, timeout_s: float
    ) -> int:
        """Add the blocks that others stored. Returns how many events from one on are in them."""
        reader = await self._link.reader()
        stream, subject = self._address.stream, self._address.history
        rows = await reader.rows(stream, subject, last + 1, timeout_s=timeout_s)
        if not rows or (head or 0) > rows[-1].seq:
            raise NoAnswer("the replicas are outdated")
        stored = 0
        for row in rows:
            lines = self._unpack(row)
            begins = int(json_text.loads_line(lines[0])["seq"])
            parts.append(HistoryPart(begins, row.seq))
            if begins <= first + stored:
                stored = max(stored, begins + len(lines) - first)
        return stored

    async def read(
        self,
        kept: LogState,
        tail: Sequence[bytes],
        after: int,
        limit: int | None,
        *,
        last: int | None = None,
    ) -> list[bytes]:
        """Return the events after a number, up to `last`, as they are stored. Raises Unavailable.

        `tail` are the last ones, which are not here. If the first ones were removed, an event with
        the team at that moment stands for them.
        """
        found: list[bytes] = []
        last = kept.seq if last is None else last
        if kept.begin is not None and after < kept.begin.first:
            (row,) = await self._rows([kept.begin], self._address.begin)
            found, after = [row.data], kept.begin.first
        elif kept.parts:
            after = max(after, kept.parts[0].first - 1)
        wanted = last - after if limit is None else min(limit - len(found), last - after)
        if wanted <= 0:
            return found[:limit]
        first_here = kept.seq - len(tail) + 1
        old = min(wanted, first_here - 1 - after)
        if old > 0:
            found += await self.lines(kept.parts, after, old)
        start = max(0, after + 1 - first_here)
        return found + list(tail[start : start + wanted - max(0, old)])

    async def block(self, part: HistoryPart) -> tuple[list[bytes], int]:
        """Return the lines of one block, and its length as stored. Raises Unavailable."""
        (row,) = await self._rows([part], self._address.history)
        return self._unpack(row), len(row.data)

    async def lines(self, parts: Sequence[HistoryPart], after: int, count: int) -> list[bytes]:
        """Return this many events after a number, which must all be here. Raises Unavailable."""
        found: list[bytes] = []
        number = after
        # Blocks may overlap: each gives what the earlier ones do not have.
        at = max(0, bisect.bisect_right(parts, after + 1, key=lambda part: part.first) - 1)
        while len(found) < count and at < len(parts):
            wanted = parts[at : at + _AT_ONCE]
            for part, row in zip(
                wanted, await self._rows(wanted, self._address.history), strict=True
            ):
                if number + 1 < part.first:
                    raise self._lacking(number + 1)
                fresh = self._unpack(row)[number + 1 - part.first :]
                found += fresh
                number += len(fresh)
            at += len(wanted)
        if len(found) < count:
            raise self._lacking(number + 1)
        return found[:count]

    async def _rows(self, wanted: Sequence[HistoryPart], subject: str) -> list[StoredRow]:
        """Return consecutive blocks. A replica may be outdated, so it is asked several times."""
        reader = await self._link.reader()
        stream = self._address.stream
        deadline = time.monotonic() + _READ_S
        why = "it does not exist"
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
            f"The history of team {self._address.team!r} from event {wanted[0].first} on cannot "
            f"be read: {why}.",
            remedy="Check `bullpen server status`, then try again.",
        )

    def _unpack(self, row: StoredRow) -> list[bytes]:
        try:
            return unpack_block(row.data)
        except ValueError as error:
            raise Unavailable(
                f"The history of team {self._address.team!r} is damaged at message {row.seq} of"
                f" {self._address.stream}: {error}.",
                remedy="A replica may have lost messages. Run `bullpen server check`.",
            ) from None

    def _lacking(self, number: int) -> Unavailable:
        return Unavailable(
            f"The history of team {self._address.team!r} has no event {number}.",
            remedy="A replica may have lost messages. Run `bullpen server check`.",
        )
