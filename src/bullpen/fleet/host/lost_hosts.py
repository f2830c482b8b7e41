"""Handles agents of lost hosts, and agents that died here."""

from __future__ import annotations

import logging

from bullpen.agents.supervisor.machines.host_records import HostRecord, rank
from bullpen.agents.supervisor.machines.over_nats import KnownHost, is_silent
from bullpen.app.app import App
from bullpen.errors import BullpenError, NotFound
from bullpen.fleet.host.heartbeat import HostHeartbeat, passed_s
from bullpen.protocol.names import LEAD
from bullpen.store.nats.client.connection import NatsConnection

_log = logging.getLogger(__name__)

_ENTITLED = 3
"""How many hosts would handle a lost one, each if those before it do not."""


class LostHosts:
    """Gives up the agents of lost hosts, and restarts elsewhere those that should continue.

    Every host does this. Everything refers to a certain launch, so that two hosts acting at once do
    it once, and a host that comes back can do nothing with the old launch. What was done is
    remembered only here: only a host itself may write its record.
    """

    def __init__(self, name: str, link: NatsConnection, app: App, heartbeat: HostHeartbeat) -> None:
        self._name = name
        self._link = link
        self._app = app
        self._heartbeat = heartbeat
        self._missed: dict[str, float] = {}
        self._given_up: set[str] = set()

    async def look(self, hosts: list[KnownHost]) -> None:
        """Find lost hosts, and handle those that are this host's turn. Raises NoAnswer.

        A heartbeat must be missing twice in a row, also for the leader of the servers, and the
        servers must have received this host's heartbeats all the time: otherwise the servers may
        have been away.
        """
        if not self._heartbeat.is_steady:
            self._missed.clear()
            return
        living = [host.record.name for host in hosts if host.beat is not None]
        lost = [host.record for host in hosts if self._is_lost(host)]
        names = {record.name for record in lost}
        self._missed = {name: at for name, at in self._missed.items() if name in names}
        self._given_up &= names
        for record in lost:
            since = self._missed.setdefault(record.name, passed_s())
            turn = rank(self._name, [*living, self._name], record.name)
            wait_s = max(self._heartbeat.pace.beat_s, turn * self._heartbeat.pace.turn_s)
            if turn >= _ENTITLED or record.name in self._given_up or passed_s() - since < wait_s:
                continue
            if await is_silent(self._link, record.name) and await self._give_up_agents(record):
                self._given_up.add(record.name)

    def _is_lost(self, host: KnownHost) -> bool:
        record = host.record
        return host.beat is None and record.name != self._name and bool(record.teams)

    async def _give_up_agents(self, host: HostRecord) -> bool:
        """Give up the agents of a host. False if it has to be tried again."""
        _log.warning("host %s is lost: its agents are given up", host.name)
        complete = True
        for team in host.teams:
            try:
                await self._give_up(team, host.name)
            except NotFound:
                continue
            except BullpenError as error:
                _log.warning("the agents of %s in %s were not given up: %s", host.name, team, error)
                complete = False
        return complete

    async def _give_up(self, team: str, host: str) -> None:
        roster, agents = self._app.supervisor(team).roster, self._app.teams.open(team).agents
        cause = f"its host {host} is lost"
        for member, agent in await agents.living():
            if agent.process is not None and agent.process.host == host:
                ending = await agents.end(
                    member.name, "lost", by=LEAD, nonce=agent.nonce, cause=cause
                )
                await roster.last_beat(member.name, agent.nonce, "lost", cause)
                if ending is not None and ending.agent.end == "suspended":
                    # Its host was just about to hand it over.
                    await self._app.supervisor(team).go_on_elsewhere(member.name, by=LEAD)
        await self._have_gone_on(team, host)

    async def _have_gone_on(self, team: str, host: str) -> None:
        """Restart elsewhere the agents that were lost with a host, whoever gave them up."""
        supervisor = self._app.supervisor(team)
        for member in (await self._app.teams.open(team).agents.config()).roster:
            agent = member.agent
            if agent is None or agent.end != "lost" or agent.process is None:
                continue
            if agent.process.host == host:
                try:
                    await supervisor.go_on_elsewhere(member.name, by=LEAD)
                except NotFound:
                    continue

    async def tend(self, teams: set[str]) -> None:
        """Give up agents that died in some teams, on this machine or silently."""
        for team in sorted(teams):
            try:
                supervisor = self._app.supervisor(team)
                for name in await supervisor.tend(by=LEAD):
                    # Also those that were silent elsewhere, or waited too long for a host.
                    await supervisor.go_on_elsewhere(name, by=LEAD)
                await self._have_gone_on(team, self._name)
            except NotFound:
                teams.discard(team)
            except BullpenError as error:
                _log.warning("cannot check team %s: %s", team, error)
