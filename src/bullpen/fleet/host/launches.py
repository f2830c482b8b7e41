"""The launches that run on this machine, and the secrets by which they are let in."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import anyio

from bullpen.agents import processes
from bullpen.agents.hosts.base import ON
from bullpen.errors import BullpenError, NotFound, Unavailable
from bullpen.fleet.host.heart import Heart, passed_s
from bullpen.protocol.agent import AgentFacts, ProcessRecord
from bullpen.protocol.roster import TeamConfig
from bullpen.store.hosted.identities import Identities, Identity
from bullpen.team.teams import Teams

_LINGER_S = 10.0
"""How long a process whose launch is over may still take to end by itself."""
_GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class Launch:
    """One start of an agent that runs here, or did."""

    team: str
    agent: str
    nonce: str
    place: ProcessRecord


class Launches:
    """Who runs here, by the word of the teams. Whose launch is over is not let in any more."""

    def __init__(self, host: str, teams: Teams, identities: Identities, heart: Heart) -> None:
        self._host = host
        self._teams = teams
        self._identities = identities
        self._heart = heart
        self._here: dict[str, dict[str, Launch]] = {}
        self._over: dict[str, tuple[Launch, float]] = {}
        self._starting: set[str] = set()
        self._settled = anyio.Event()
        self._admitted: set[Identity] = set()
        self._looked_s: float | None = None

    def __call__(self, token: str) -> Identity | None:
        """For whom a token speaks, for the door.

        Raises:
            Unavailable: its agent may have been given up, and that was not looked at yet.
        """
        who = self._identities(token)
        if who is None or who.is_operator or self._is_sure():
            return who
        raise Unavailable(
            f"The host {self._host!r} was out of touch with the servers for so long that its"
            " agents may have been given up.",
            remedy="Wait: it looks whether they were as soon as the servers answer.",
        )

    def _is_sure(self) -> bool:
        began = self._heart.began_s
        looked = self._looked_s
        return self._heart.is_known and began is not None and looked is not None and looked >= began

    @property
    def count(self) -> int:
        """How many agents this machine has, those on their way included."""
        nonces = {nonce for launches in self._here.values() for nonce in launches}
        return len(nonces | self._starting)

    async def none_starting(self) -> None:
        """Wait until nobody is on the way any more."""
        while self._starting:
            self._settled = anyio.Event()
            await self._settled.wait()

    def in_team(self, team: str) -> list[Launch]:
        """Those of one team."""
        return list(self._here.get(team, {}).values())

    def expect(self, nonce: str) -> None:
        """Count a launch that is about to be started here for somebody."""
        self._starting.add(nonce)

    def settle(self, nonce: str, started: Launch | None) -> None:
        """Know what became of it: the launch, or nothing."""
        if started is not None:
            self._here.setdefault(started.team, {})[nonce] = started
        self._starting.discard(nonce)
        self._settled.set()

    def admit(self, team: str, agent: str) -> str:
        """The secret of a new launch of an agent; that of the launch before is void."""
        who = Identity(team, agent)
        self._admitted.add(who)
        return self._identities.mint(who)

    def known_teams(self) -> set[str]:
        """The teams of those who have a secret."""
        return {who.team for who in self._identities.all() if who.team is not None}

    async def look(self, teams: set[str]) -> None:
        """See who runs here. A team that is gone is taken out of `teams`.

        Raises:
            BullpenError: a team cannot be read. What was known of it stays.
        """
        began = passed_s()
        errors: list[BullpenError] = []
        for team in sorted(teams):
            try:
                config = await self._teams.open(team).agents.config()
            except NotFound:
                teams.discard(team)
                self._here.pop(team, None)
                self._identities.revoke_team(team)
            except BullpenError as error:
                errors.append(error)
            else:
                self._take_in(team, config)
        if errors:
            raise errors[0]
        self._looked_s = began

    def _take_in(self, team: str, config: TeamConfig) -> None:
        agents = {member.name: member.agent for member in config.roster if member.agent is not None}
        here = {
            agent.nonce: Launch(team, name, agent.nonce, agent.place)
            for name, agent in agents.items()
            if agent.phase != "ended" and agent.place and agent.place.host == self._host
        }
        for nonce, launch in self._here.get(team, {}).items():
            if nonce not in here:
                last = agents.get(launch.agent)
                spoke = last is not None and last.nonce == nonce and last.end != "lost"
                # Whoever was given up, or replaced, has nothing left to say.
                self._over[nonce] = launch, passed_s() + (_LINGER_S if spoke else 0.0)
        self._here[team] = here
        for who in self._identities.all():
            if who.team == team and not self._is_let_in(who, agents.get(who.agent or "")):
                self._admitted.discard(who)
                self._identities.revoke(who)

    def _is_let_in(self, who: Identity, agent: AgentFacts | None) -> bool:
        if agent is None:
            return False
        if agent.phase == "ended":
            # Its own last words, unless others had the last word about it.
            return agent.nonce in self._over and agent.end != "lost"
        if agent.place is not None:
            return agent.place.host == self._host
        started_here = ON not in agent.asked.options and who in self._admitted
        return started_here or agent.nonce in self._starting

    async def end_what_is_over(self) -> None:
        """End processes of launches that are over and do not end by themselves."""
        for nonce, (launch, until) in list(self._over.items()):
            place = launch.place
            if await anyio.to_thread.run_sync(processes.runs, place):
                if passed_s() < until:
                    continue
                with suppress(Unavailable):
                    await processes.end(place.pid, place.start, place.group, nonce, _GRACE_S)
                continue
            del self._over[nonce]
