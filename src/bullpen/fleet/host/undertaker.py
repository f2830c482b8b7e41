"""What becomes of the agents of a host that is lost, and of agents that died here."""

from __future__ import annotations

import logging

from bullpen.agents.hosts.over_nats import KnownHost, is_silent
from bullpen.agents.hosts.records import HostRecord, rank
from bullpen.errors import BullpenError, NotFound
from bullpen.fleet.host.heart import Heart, passed_s
from bullpen.office import Office
from bullpen.protocol.names import LEAD
from bullpen.store.nats.connection import Connection

_log = logging.getLogger(__name__)

_ENTITLED = 3
"""How many hosts would see to a lost one, each if those before it do not."""


class Undertaker:
    """Gives up the agents of lost hosts, and has those started elsewhere that are to go on.

    Every host has one. Whoever acts, everything is done with the launch that is meant, so that
    two who act at once do it once, and a host that comes back can do nothing with the old one.
    What was done is remembered here only: nobody but a host itself may write its record.
    """

    def __init__(self, name: str, link: Connection, office: Office, heart: Heart) -> None:
        self._name = name
        self._link = link
        self._office = office
        self._heart = heart
        self._missed: dict[str, float] = {}
        self._buried: set[str] = set()

    async def look(self, hosts: list[KnownHost]) -> None:
        """See which hosts are lost, and to those whose turn it is to be seen to.

        A heartbeat must be missing twice in a row, for the leader of the servers too, and all
        the time others must have heard this host: else it may be the servers that were away.

        Raises:
            NoAnswer: the leader does not answer.
        """
        if not self._heart.is_steady:
            self._missed.clear()
            return
        living = [host.record.name for host in hosts if host.beat is not None]
        lost = [host.record for host in hosts if self._is_lost(host)]
        names = {record.name for record in lost}
        self._missed = {name: at for name, at in self._missed.items() if name in names}
        self._buried &= names
        for record in lost:
            since = self._missed.setdefault(record.name, passed_s())
            turn = rank(self._name, [*living, self._name], record.name)
            wait_s = max(self._heart.pace.beat_s, turn * self._heart.pace.turn_s)
            if turn >= _ENTITLED or record.name in self._buried or passed_s() - since < wait_s:
                continue
            if await is_silent(self._link, record.name) and await self._bury(record):
                self._buried.add(record.name)

    def _is_lost(self, host: KnownHost) -> bool:
        record = host.record
        return host.beat is None and record.name != self._name and bool(record.teams)

    async def _bury(self, host: HostRecord) -> bool:
        """Give up the agents of a host; False if that has to be tried again."""
        _log.warning("host %s is lost: its agents are given up", host.name)
        complete = True
        for team in host.teams:
            try:
                await self._give_up(team, host.name)
            except NotFound:
                continue
            except BullpenError as error:
                _log.warning("the agents of %s in %s are not given up: %s", host.name, team, error)
                complete = False
        return complete

    async def _give_up(self, team: str, host: str) -> None:
        roll, agents = self._office.supervisor(team).roll, self._office.teams.open(team).agents
        cause = f"its host {host} is lost"
        for member, agent in await agents.living():
            if agent.place is not None and agent.place.host == host:
                ending = await agents.end(
                    member.name, "lost", by=LEAD, nonce=agent.nonce, cause=cause
                )
                await roll.last_beat(member.name, agent.nonce, "lost", cause)
                if ending is not None and ending.agent.end == "suspended":
                    # Its host was just about to hand it over.
                    await self._office.supervisor(team).go_on_elsewhere(member.name, by=LEAD)
        await self._have_gone_on(team, host)

    async def _have_gone_on(self, team: str, host: str) -> None:
        """Have those started elsewhere that were lost with a host, whoever gave them up."""
        supervisor = self._office.supervisor(team)
        for member in (await self._office.teams.open(team).agents.config()).roster:
            agent = member.agent
            if agent is None or agent.end != "lost" or agent.place is None:
                continue
            if agent.place.host == host:
                try:
                    await supervisor.go_on_elsewhere(member.name, by=LEAD)
                except NotFound:
                    continue

    async def tend(self, teams: set[str]) -> None:
        """Give up what died in some teams, on this machine or by its silence."""
        for team in sorted(teams):
            try:
                supervisor = self._office.supervisor(team)
                for name in await supervisor.tend(by=LEAD):
                    # Whoever was silent elsewhere, or waited in vain for a machine, too.
                    await supervisor.go_on_elsewhere(name, by=LEAD)
                await self._have_gone_on(team, self._name)
            except NotFound:
                teams.discard(team)
            except BullpenError as error:
                _log.warning("team %s could not be looked after: %s", team, error)
