"""Reach the machines of a cell over NATS."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bullpen.agents.supervisor.machines.host_records import (
    HostBeat,
    HostOrder,
    HostRecord,
    HostSpawn,
    pool_of,
)
from bullpen.errors import Refused, Unavailable
from bullpen.protocol import json_text
from bullpen.protocol.agent import ProcessRecord
from bullpen.protocol.clock import Clock, now_ms
from bullpen.store.hosted.client import HostedStore
from bullpen.store.hosted.socket import operator_token, socket_in
from bullpen.store.nats.client import api_requests
from bullpen.store.nats.client.api_requests import ApiError, HeadMoved, NoAnswer, NoStream
from bullpen.store.nats.client.connection import NatsConnection
from bullpen.store.nats.client.orders import send_order
from bullpen.store.nats.client.streams import with_stream
from bullpen.store.nats.client.subjects import start_key, token

HOSTS, BEATS = "KV_HOSTS", "KV_BEATS"
_TRY_S = 5.0
_ANSWER_S = 10.0


@dataclass(frozen=True, slots=True)
class KnownHost:
    """A machine, and its last heartbeat unless it is lost."""

    record: HostRecord
    beat: HostBeat | None

    @property
    def state(self) -> str:
        """Its state in one word."""
        if self.beat is not None:
            return "draining" if self.beat.draining else "ready"
        return "lost" if self.record.drained_ms is None else "drained"


def record_key(host: str) -> str:
    """The subject of a host's record."""
    return f"$KV.HOSTS.host.{token(host)}"


def beat_key(host: str) -> str:
    """The subject of a host's heartbeat."""
    return f"$KV.BEATS.host.{token(host)}"


async def known_hosts(link: NatsConnection) -> list[KnownHost]:
    """All hosts of a cell, by name. Raises Unavailable."""
    reader = await link.reader()
    try:
        records = await reader.rows(HOSTS, "$KV.HOSTS.host.*", 1, timeout_s=_TRY_S)
        beats, _ = await with_stream(
            link, BEATS, lambda: reader.rows(BEATS, "$KV.BEATS.host.*", 1, timeout_s=_TRY_S)
        )
    except NoStream as error:
        raise Unavailable(
            f"Cannot list the hosts: {link.endpoint} does not know who is alive ({error}).",
            remedy="Run `bullpen server prepare` with an administrator's key.",
        ) from None
    except NoAnswer as error:
        raise Unavailable(
            f"Cannot list the hosts: no answer from {link.endpoint} ({error}).",
            remedy="Run `bullpen server status` to see which servers are up.",
        ) from None
    last = {
        beat.name: beat
        for beat in (HostBeat.parse(json_text.loads(row.data)) for row in beats if row.data)
    }
    found = [HostRecord.parse(json_text.loads(row.data)) for row in records if row.data]
    return [KnownHost(host, last.get(host.name)) for host in sorted(found, key=lambda h: h.name)]


async def is_silent(link: NatsConnection, host: str) -> bool:
    """Whether the stream's leader has no heartbeat of a host. Raises NoAnswer."""
    client = await link.client()
    ask = {"last_by_subj": beat_key(host)}
    row, _ = await with_stream(
        link, BEATS, lambda: api_requests.leader_row(client, BEATS, ask, timeout_s=_TRY_S)
    )
    return row is None or not row.data


class NatsHosts:
    """The machines of a cell, for a process with its own connection to NATS."""

    def __init__(
        self,
        link: NatsConnection,
        variables: Mapping[str, str],
        *,
        home: Path | None = None,
        clock: Clock = now_ms,
    ) -> None:
        self.link = link
        self.variables = variables
        self._home = home
        self._clock = clock

    async def admit(self, team: str, agent: str) -> Mapping[str, str]:
        """Agents connect through the host process of this home, if there is one.

        Raises Refused if there is none and they would get a person's credentials (no_host).
        """
        socket = None if self._home is None else socket_in(self._home)
        if socket is not None and socket.exists():
            store = HostedStore(str(socket), operator_token(str(socket)))
            try:
                return dict(await store.ask("admit", team=team, agent=agent))
            finally:
                await store.aclose()
        if self.link.endpoint.creds is not None:
            raise Refused(
                f"{agent!r} would get your own credentials, which allow more than it needs.",
                reason="no_host",
                remedy="Start the host process of this machine: bullpen host run",
            )
        return self.variables

    async def place(
        self, team: str, agent: str, nonce: str, labels: Mapping[str, str], *, by: str
    ) -> None:
        """Put a request into the pool of those labels."""
        request = HostSpawn.new(
            team=team,
            agent=agent,
            nonce=nonce,
            labels=dict(labels),
            by=by,
            asked_ms=self._clock(),
        )
        client = await self.link.client()
        data = json_text.dumps_line(request.raw)
        try:
            # The nonce makes it one request, even if it is sent twice.
            key = start_key(pool_of(labels), nonce)
            with suppress(HeadMoved):
                await api_requests.append(client, key, data, expect=0, timeout_s=_TRY_S)
        except (NoAnswer, ApiError) as error:
            raise Unavailable(
                f"Could not ask for a machine to start {agent!r}: {error}.",
                remedy="Run `bullpen server status`, then try again.",
            ) from None

    async def stop(
        self, place: ProcessRecord, team: str, agent: str, nonce: str, *, grace_s: float
    ) -> None:
        """Ask the host where it runs."""
        order = HostOrder.new(action="stop", team=team, agent=agent, nonce=nonce, grace_s=grace_s)
        await self.order(place.host, order, within_s=grace_s + _ANSWER_S)

    async def order(self, host: str, order: HostOrder, *, within_s: float) -> None:
        """Send an order to a host and wait. Raises Unavailable if it does not answer, or cannot."""
        data = json_text.dumps_line(order.raw)
        try:
            if await is_silent(self.link, host):
                raise NoAnswer("it sends no heartbeats")
            answer = await send_order(self.link, host, data, timeout_s=within_s)
        except NoAnswer as error:
            raise Unavailable(
                f"The host {host!r} does not answer ({error}).",
                remedy=f"Run `bullpen hosts` to see whether {host} is lost.",
            ) from None
        raw = json_text.loads(answer)
        if raw.get("error"):
            raise Unavailable(
                f"The host {host!r} refused: {raw['error']}", remedy=f"Check its log on {host}."
            )

    async def who(self) -> str:
        """The names of the hosts, with their states unless they are ready."""
        hosts = await known_hosts(self.link)
        shown = [
            host.record.name if host.state == "ready" else f"{host.record.name} ({host.state})"
            for host in hosts
        ]
        return ", ".join(shown) or "none"
