"""Heartbeats: gathered per team and connection, written when they say something new or get old."""

from __future__ import annotations

import secrets
import time

from bullpen.errors import Unavailable
from bullpen.protocol import jsontext
from bullpen.protocol.presence import Presence
from bullpen.store.nats import subjects, wire
from bullpen.store.nats.connection import Connection
from bullpen.store.nats.subjects import Address
from bullpen.store.nats.wire import ApiError, NoAnswer, Row

_TRY_S = 2.0


class Beats:
    """What the agents of this process, or of this machine, last said of themselves."""

    def __init__(self, link: Connection, host: str, *, every_s: float = 8.0) -> None:
        self._link = link
        self._host = host
        self._every_s = every_s
        self._session = secrets.token_hex(4)
        self._ours: dict[Address, dict[str, Presence]] = {}
        self._written: dict[Address, float] = {}

    async def put(self, address: Address, beat: Presence) -> None:
        """Take a heartbeat. It is passed on at once if it says something new of its agent.

        Raises:
            Unavailable: it could not be passed on.
        """
        ours = self._ours.setdefault(address, {})
        before = ours.get(beat.agent)
        ours[beat.agent] = beat
        is_news = before is None or (before.state, before.nonce) != (beat.state, beat.nonce)
        # Three times in the time that a heartbeat is believed: writing costs the servers most.
        every_s = max(self._every_s, beat.ttl_ms / 3000)
        if is_news or time.monotonic() - self._written.get(address, 0.0) > every_s:
            await self._write(address)

    async def _write(self, address: Address) -> None:
        client = await self._link.client()
        data = jsontext.dumps_line({key: beat.raw for key, beat in self._ours[address].items()})
        self._written[address] = time.monotonic()
        subject = address.presence_of(self._link.bearer.name or self._host, self._session)
        try:
            await wire.replace(client, subject, data, timeout_s=_TRY_S)
        except (NoAnswer, ApiError) as error:
            self._written.pop(address, None)
            raise Unavailable(
                f"A heartbeat for team {address.team!r} got no answer from"
                f" {self._link.endpoint} ({error}).",
                remedy="See `bullpen server status`.",
            ) from None

    async def all(self, address: Address) -> dict[str, Presence]:
        """The last heartbeat of everybody in a team, wherever it is. Raises Unavailable."""
        try:
            rows = await self._rows(address)
        except NoAnswer as error:
            raise Unavailable(
                f"Who is present in team {address.team!r} is not known: no answer from"
                f" {self._link.endpoint} ({error}).",
                remedy="See `bullpen server status`.",
            ) from None
        found: dict[str, Presence] = {}
        for row in rows:
            for agent, raw in jsontext.loads(row.data).items():
                beat = Presence.parse(raw)
                if agent not in found or found[agent].beat_ms < beat.beat_ms:
                    found[agent] = beat
        return (
            {**found, **self._ours.get(address, {})} if rows else dict(self._ours.get(address, {}))
        )

    async def _rows(self, address: Address) -> list[Row]:
        reader = await self._link.reader()
        wanted = [address.presence]
        return await reader.last_rows(subjects.PRESENCE_STREAM, wanted, timeout_s=_TRY_S)

    def forget(self, address: Address) -> None:
        """Pass nothing on any more for a team that is gone."""
        self._ours.pop(address, None)
        self._written.pop(address, None)
