"""The events of a team that left its log: in parts, each under a subject of its own."""

from __future__ import annotations

import asyncio
import bisect
import time
from collections.abc import Iterator, Sequence

from bullpen.errors import Unavailable
from bullpen.store.nats import wire
from bullpen.store.nats.connection import Connection
from bullpen.store.nats.subjects import Address
from bullpen.store.nats.wire import HeadMoved, NoAnswer

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
    """The parts of one team's history. What is stored in it never changes."""

    def __init__(self, link: Connection, address: Address) -> None:
        self._link = link
        self._address = address

    async def store(self, first: int, lines: Sequence[bytes], *, timeout_s: float) -> int:
        """Store a part that begins with an event; returns how many events the stored part has.

        Somebody may have stored one that begins there, and was killed before he went on: his
        counts, longer or shorter. Raises NoAnswer and ApiError.
        """
        client = await self._link.client()
        try:
            await wire.append(
                client,
                self._address.chunk(first),
                b"\n".join(lines),
                expect=0,
                timeout_s=timeout_s,
            )
        except HeadMoved:
            return len(await self._part(first))
        return len(lines)

    async def lines(self, chunks: Sequence[int], after: int, count: int) -> list[bytes]:
        """So many events past a number, which must all be here. Raises Unavailable."""
        at = max(0, bisect.bisect_right(chunks, after + 1) - 1)
        found: list[bytes] = []
        number = after
        while len(found) < count and at < len(chunks):
            firsts = chunks[at : at + _AT_ONCE]
            for first, part in zip(
                firsts, await asyncio.gather(*map(self._part, firsts)), strict=True
            ):
                if number + 1 < first:
                    raise self._lacking(number + 1)
                fresh = part[number + 1 - first :]
                found += fresh
                number += len(fresh)
                if len(found) >= count:
                    break
            at += len(firsts)
        if len(found) < count:
            raise self._lacking(number + 1)
        return found[:count]

    async def _part(self, first: int) -> list[bytes]:
        """A part. A replica may be behind, so it is looked for several times."""
        client = await self._link.client()
        deadline = time.monotonic() + _READ_S
        why = "it is not there"
        while time.monotonic() < deadline:
            try:
                row = await wire.last_row(
                    client, self._address.stream, self._address.chunk(first), timeout_s=1.0
                )
                if row is not None:
                    return row.data.split(b"\n")
            except NoAnswer as error:
                why = str(error)
            await asyncio.sleep(0.02)
        raise Unavailable(
            f"The history of team {self._address.team!r} from event {first} on cannot be read:"
            f" {why}.",
            remedy="See `bullpen server status`, then try again.",
        )

    def _lacking(self, number: int) -> Unavailable:
        return Unavailable(
            f"The history of team {self._address.team!r} lacks event {number}.",
            remedy="A replica may have lost messages: run `bullpen server check`.",
        )
