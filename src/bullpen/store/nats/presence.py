"""Heartbeats: collected per team and connection, written when they are new or get old."""

from __future__ import annotations

import secrets
import time

from bullpen.errors import Unavailable
from bullpen.protocol import json_text
from bullpen.protocol.presence import Presence
from bullpen.store.nats.client import api_requests
from bullpen.store.nats.client.api_requests import unavailable_if_unanswered
from bullpen.store.nats.client.connection import NatsConnection
from bullpen.store.nats.client.streams import with_stream
from bullpen.store.nats.client.subjects import Address

_TRY_S = 2.0
_KEPT_S = 120.0
"""As long as the servers keep a heartbeat. One that is not renewed for so long is not passed on:
its agent may go on elsewhere, on a machine whose clock is earlier."""


class PresenceWriter:
    """The last heartbeats of the agents of this process, or of this machine."""

    def __init__(self, link: NatsConnection, host: str, *, every_s: float = 8.0) -> None:
        self._link = link
        self._host = host
        self._every_s = every_s
        self._session = secrets.token_hex(4)
        self._ours: dict[Address, dict[str, Presence]] = {}
        self._written: dict[Address, float] = {}
        self._taken: dict[tuple[Address, str], float] = {}

    async def put(self, address: Address, beat: Presence) -> None:
        """Take a heartbeat. It is passed on at once if it has news. Raises Unavailable."""
        ours = self._ours.setdefault(address, {})
        before = ours.get(beat.agent)
        ours[beat.agent] = beat
        self._taken[address, beat.agent] = time.monotonic()
        is_news = before is None or (before.state, before.nonce) != (beat.state, beat.nonce)
        # Three times in the lifetime of a heartbeat: writing costs the servers most.
        every_s = max(self._every_s, beat.ttl_ms / 3000)
        if is_news or time.monotonic() - self._written.get(address, 0.0) > every_s:
            await self._write(address)

    def _fresh(self, address: Address) -> dict[str, Presence]:
        """Return the heartbeats that were renewed lately, and forget the others."""
        now, ours = time.monotonic(), self._ours.get(address, {})
        for agent, beat in list(ours.items()):
            kept_s = max(_KEPT_S, 3 * beat.ttl_ms / 1000)
            if now - self._taken.get((address, agent), now) > kept_s:
                del ours[agent], self._taken[address, agent]
        return ours

    async def _write(self, address: Address) -> None:
        client = await self._link.client()
        data = json_text.dumps_line({key: beat.raw for key, beat in self._fresh(address).items()})
        self._written[address] = time.monotonic()
        subject = address.presence_of(self._link.bearer.name or self._host, self._session)
        what = f"{self._link.endpoint} did not answer a heartbeat for team {address.team!r}"
        try:
            with unavailable_if_unanswered(what):
                await with_stream(
                    self._link,
                    address.presence_stream,
                    lambda: api_requests.replace(client, subject, data, timeout_s=_TRY_S),
                )
        except Unavailable:
            self._written.pop(address, None)
            raise

    async def all(self, address: Address) -> dict[str, Presence]:
        """Return the last heartbeat of everybody in a team, on any host. Raises Unavailable."""
        reader = await self._link.reader()
        what = f"{self._link.endpoint} did not answer who is present in team {address.team!r}"
        with unavailable_if_unanswered(what):
            stream, wanted = address.presence_stream, [address.presence]
            rows, _ = await with_stream(
                self._link,
                stream,
                lambda: reader.last_rows(stream, wanted, timeout_s=_TRY_S),
            )
        found: dict[str, Presence] = {}
        for row in rows:
            for agent, raw in json_text.loads(row.data).items():
                beat = Presence.parse(raw)
                if agent not in found or found[agent].beat_ms < beat.beat_ms:
                    found[agent] = beat
        return {**found, **self._fresh(address)}

    def forget(self, address: Address) -> None:
        """Pass nothing on for a team that is gone."""
        for agent in self._ours.pop(address, {}):
            self._taken.pop((address, agent), None)
        self._written.pop(address, None)
