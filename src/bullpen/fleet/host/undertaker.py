"""What becomes of the agents of a host that is lost, and of agents that died here."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable

from bullpen.agents.hosts.over_nats import KnownHost, known_hosts
from bullpen.agents.hosts.records import HostRecord, rank
from bullpen.errors import BullpenError, NotFound
from bullpen.office import Office
from bullpen.protocol.names import LEAD
from bullpen.store.clock import Clock
from bullpen.store.nats.connection import Connection

_log = logging.getLogger(__name__)

_TURN_S = 15.0
"""How long the next host waits before it does what the one before should have done."""


class Undertaker:
    """Gives up the agents of lost hosts, and has those started elsewhere that are to go on.

    Every host has one. Whoever acts, everything is done with the launch that is meant, so that
    two who act at once do it once, and a host that comes back can do nothing with the old one.
    """

    def __init__(
        self,
        name: str,
        link: Connection,
        office: Office,
        *,
        save: Callable[[HostRecord], Awaitable[None]],
        clock: Clock,
    ) -> None:
        self._name = name
        self._link = link
        self._office = office
        self._save = save
        self._clock = clock
        self._missed: dict[str, float] = {}

    async def look(self) -> None:
        """See which hosts are lost, and to those whose turn it is to be seen to."""
        hosts = await known_hosts(self._link)
        living = [host.record.name for host in hosts if host.beat is not None]
        for host in hosts:
            if not self._is_lost(host):
                self._missed.pop(host.record.name, None)
                continue
            since = self._missed.setdefault(host.record.name, time.monotonic())
            turn = rank(self._name, [*living, self._name], host.record.name)
            if time.monotonic() - since >= turn * _TURN_S:
                await self._bury(host.record)

    def _is_lost(self, host: KnownHost) -> bool:
        record = host.record
        return host.beat is None and record.name != self._name and bool(record.teams)

    async def _bury(self, host: HostRecord) -> None:
        _log.warning("host %s is lost: its agents are given up", host.name)
        for team in host.teams:
            try:
                await self._give_up(team, host.name)
            except NotFound:
                continue
        await self._save(host.evolve(teams=[], lost_ms=self._clock()))

    async def _give_up(self, team: str, host: str) -> None:
        supervisor, agents = self._office.supervisor(team), self._office.teams.open(team).agents
        for member, agent in await agents.living():
            if agent.place is not None and agent.place.host == host:
                cause = f"its host {host} is lost"
                await agents.end(member.name, "lost", by=LEAD, nonce=agent.nonce, cause=cause)
                await supervisor.roll.last_beat(member.name, agent.nonce, "lost", cause)
                await supervisor.go_on_elsewhere(member.name, by=LEAD)

    async def tend(self, teams: set[str]) -> None:
        """Give up what died in some teams, on this machine or by its silence."""
        for team in sorted(teams):
            try:
                supervisor = self._office.supervisor(team)
                for name in await supervisor.tend(by=LEAD):
                    await supervisor.go_on_elsewhere(name, by=LEAD)
            except NotFound:
                teams.discard(team)
            except BullpenError as error:
                _log.warning("team %s could not be looked after: %s", team, error)
