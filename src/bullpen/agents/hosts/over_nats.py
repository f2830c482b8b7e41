"""The machines of a cell, asked over NATS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bullpen.agents.hosts.records import HostBeat, HostOrder, HostRecord, SpawnRequest, pool_of
from bullpen.errors import Refused, Unavailable
from bullpen.protocol import jsontext
from bullpen.protocol.agent import ProcessRecord
from bullpen.store.clock import Clock, now_ms
from bullpen.store.hosted.client import HostedStore
from bullpen.store.hosted.place import operator_token, socket_in
from bullpen.store.nats import wire
from bullpen.store.nats.connection import Connection
from bullpen.store.nats.subjects import token
from bullpen.store.nats.wire import ApiError, NoAnswer

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
        """How it is, in a word."""
        if self.beat is not None:
            return "draining" if self.beat.draining else "ready"
        return "lost" if self.record.drained_ms is None else "drained"


def record_key(host: str) -> str:
    """Where a host says what it is."""
    return f"$KV.HOSTS.host.{token(host)}"


def beat_key(host: str) -> str:
    """Where a host says that it is there."""
    return f"$KV.BEATS.host.{token(host)}"


def order_subject(host: str) -> str:
    """Where a host is asked to do something now."""
    return f"ctl.{token(host)}"


async def known_hosts(link: Connection) -> list[KnownHost]:
    """All hosts of a cell, by name. Raises Unavailable."""
    reader = await link.reader()
    try:
        records = await reader.rows(HOSTS, "$KV.HOSTS.host.*", 1, timeout_s=_TRY_S)
        beats = await reader.rows(BEATS, "$KV.BEATS.host.*", 1, timeout_s=_TRY_S)
    except NoAnswer as error:
        raise Unavailable(
            f"Which hosts there are is not known: no answer from {link.endpoint} ({error}).",
            remedy="See `bullpen server status`.",
        ) from None
    last = {
        beat.name: beat
        for beat in (HostBeat.parse(jsontext.loads(row.data)) for row in beats if row.data)
    }
    found = [HostRecord.parse(jsontext.loads(row.data)) for row in records if row.data]
    return [KnownHost(host, last.get(host.name)) for host in sorted(found, key=lambda h: h.name)]


async def is_silent(link: Connection, host: str) -> bool:
    """Whether the leader itself knows no heartbeat of a host; a replica may only be behind.

    Raises:
        NoAnswer: nobody can say it now.
    """
    client = await link.client()
    ask = {"last_by_subj": beat_key(host)}
    row = await wire.leader_row(client, BEATS, ask, timeout_s=_TRY_S)
    return row is None or not row.data


async def _admitted(store: HostedStore, team: str, agent: str) -> dict[str, str]:
    admitted: dict[str, str] = await store.ask("admit", team=team, agent=agent)
    return admitted


class NatsHosts:
    """The machines of a cell, for who has a connection of his own."""

    def __init__(
        self,
        link: Connection,
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
        """Agents go through the host process of this home, if there is one.

        Raises:
            Refused: there is none, and they would have a person's credentials (no_host).
        """
        socket = None if self._home is None else socket_in(self._home)
        if socket is not None and socket.exists():
            store = HostedStore(str(socket), operator_token(str(socket)))
            try:
                return await _admitted(store, team, agent)
            finally:
                await store.aclose()
        if self.link.endpoint.creds is not None:
            raise Refused(
                f"{agent!r} would get your credentials, which are good for more than its work.",
                reason="no_host",
                remedy="Start the host process of this machine: bullpen host run",
            )
        return self.variables

    async def place(
        self, team: str, agent: str, nonce: str, labels: Mapping[str, str], *, by: str
    ) -> None:
        """Put a request into the queue of those labels."""
        request = SpawnRequest.new(
            team=team,
            agent=agent,
            nonce=nonce,
            labels=dict(labels),
            by=by,
            asked_ms=self._clock(),
        )
        client = await self.link.client()
        data = jsontext.dumps_line(request.raw)
        try:
            # The nonce makes it one request, however often it is sent.
            await wire.publish_once(
                client, f"spawn.{pool_of(labels)}", data, key=nonce, timeout_s=_TRY_S
            )
        except (NoAnswer, ApiError) as error:
            raise Unavailable(
                f"No machine could be asked to start {agent!r}: {error}.",
                remedy="See `bullpen server status`, then try again.",
            ) from None

    async def stop(
        self, place: ProcessRecord, team: str, agent: str, nonce: str, *, grace_s: float
    ) -> None:
        """Ask the host where it runs."""
        order = HostOrder.new(action="stop", team=team, agent=agent, nonce=nonce, grace_s=grace_s)
        await self.order(place.host, order, within_s=grace_s + _ANSWER_S)

    async def order(self, host: str, order: HostOrder, *, within_s: float) -> None:
        """Have a host do something. Raises Unavailable if it is not there, or cannot."""
        client = await self.link.client()
        data = jsontext.dumps_line(order.raw)
        try:
            answer = await wire.request(
                client, order_subject(host), data, headers=None, timeout_s=within_s
            )
        except NoAnswer as error:
            raise Unavailable(
                f"The host {host!r} does not answer ({error}).",
                remedy=f"See `bullpen hosts`; if {host} is lost, its agents are given up.",
            ) from None
        raw = jsontext.loads(answer.data)
        if raw.get("error"):
            raise Unavailable(
                f"The host {host!r} could not do it: {raw['error']}", remedy=f"Look on {host}."
            )

    async def who(self) -> str:
        """The hosts there are."""
        hosts = await known_hosts(self.link)
        shown = [
            host.record.name if host.state == "ready" else f"{host.record.name} ({host.state})"
            for host in hosts
        ]
        return ", ".join(shown) or "none"
