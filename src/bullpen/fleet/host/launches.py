"""The launches on this machine, and the secrets that admit them to the socket."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import anyio

from bullpen.agents.contracts.machines import ON
from bullpen.agents.system import processes
from bullpen.errors import BullpenError, NotFound, Unavailable
from bullpen.fleet.host.heartbeat import HostHeartbeat, passed_s
from bullpen.protocol.agent import AgentFacts, ProcessRecord
from bullpen.protocol.team import TeamConfig
from bullpen.store.hosted.tokens import Identities, TokenIdentity
from bullpen.team.team import Teams

_LINGER_S = 10.0
"""How long a process may take to end by itself after its launch is over."""
_GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class HostLaunch:
    """A launch of an agent that runs or ran here."""

    team: str
    agent: str
    nonce: str
    place: ProcessRecord


class LaunchTokens:
    """The secrets of launches. Whoever has one speaks for its agent."""

    def __init__(self, identities: Identities) -> None:
        self.identities = identities
        self._admitted: set[TokenIdentity] = set()

    def admit(self, team: str, agent: str) -> str:
        """The secret of a new launch of an agent; that of the launch before is void."""
        who = TokenIdentity(team, agent)
        self._admitted.add(who)
        return self.identities.mint(who)

    def was_admitted(self, who: TokenIdentity) -> bool:
        """Whether it got its secret from this process."""
        return who in self._admitted

    def revoke(self, who: TokenIdentity) -> None:
        """Void a secret."""
        self._admitted.discard(who)
        self.identities.revoke(who)


class Launches:
    """The launches here, according to the teams' records. A launch that is over is not admitted."""

    def __init__(
        self,
        host: str,
        teams: Teams,
        tokens: LaunchTokens,
        heartbeat: HostHeartbeat,
    ) -> None:
        self._host = host
        self._teams = teams
        self._identities = tokens.identities
        self._tokens = tokens
        self._heartbeat = heartbeat
        self._here: dict[str, dict[str, HostLaunch]] = {}
        self._over: dict[str, tuple[HostLaunch, float]] = {}
        self._starting: set[str] = set()
        self._settled = anyio.Event()
        self._looked_s: float | None = None

    def __call__(self, token: str) -> TokenIdentity | None:
        """Return the identity of a token. Raises Unavailable if its agent may be given up."""
        who = self._identities(token)
        if who is None or who.is_operator or self._is_sure():
            return who
        raise Unavailable(
            f"Host {self._host!r} was disconnected from the servers for so long that its agents "
            "may have been given up.",
            remedy="Wait: the host checks that as soon as the servers answer.",
        )

    def _is_sure(self) -> bool:
        began, looked = self._heartbeat.began_s, self._looked_s
        if began is None or looked is None:
            return False
        return self._heartbeat.is_known and looked >= began

    @property
    def count(self) -> int:
        """Return how many agents this machine has, including those being started."""
        nonces = {nonce for launches in self._here.values() for nonce in launches}
        return len(nonces | self._starting)

    async def none_starting(self) -> None:
        """Wait until no agent is being started."""
        while self._starting:
            self._settled = anyio.Event()
            await self._settled.wait()

    def in_team(self, team: str) -> list[HostLaunch]:
        """Return the launches of one team."""
        return list(self._here.get(team, {}).values())

    def expect(self, nonce: str) -> None:
        """Count a launch that is about to be started here."""
        self._starting.add(nonce)

    def settle(self, nonce: str, started: HostLaunch | None) -> None:
        """Record the result: the launch, or nothing."""
        if started is not None:
            self._here.setdefault(started.team, {})[nonce] = started
        self._starting.discard(nonce)
        self._settled.set()

    def known_teams(self) -> set[str]:
        """Return the teams that have admitted launches."""
        return {who.team for who in self._identities.all() if who.team is not None}

    async def look(self, teams: set[str]) -> None:
        """Find out who runs here. A team that is gone is removed from `teams`.

        Raises BullpenError if a team cannot be read. What was known of it stays.
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
            agent.nonce: HostLaunch(team, name, agent.nonce, agent.process)
            for name, agent in agents.items()
            if agent.phase != "ended" and agent.process and agent.process.host == self._host
        }
        for nonce, launch in self._here.get(team, {}).items():
            if nonce not in here:
                last = agents.get(launch.agent)
                spoke = last is not None and last.nonce == nonce and last.end != "lost"
                # An agent that was given up or replaced may no longer act.
                self._over[nonce] = launch, passed_s() + (_LINGER_S if spoke else 0.0)
        self._here[team] = here
        for who in self._identities.all():
            if who.team == team and not self._is_let_in(who, agents.get(who.agent or "")):
                self._tokens.revoke(who)

    def _is_let_in(self, who: TokenIdentity, agent: AgentFacts | None) -> bool:
        if agent is None:
            return False
        if agent.phase == "ended":
            # Its own last heartbeat, unless others recorded its end.
            return agent.nonce in self._over and agent.end != "lost"
        if agent.process is not None:
            return agent.process.host == self._host
        started_here = ON not in agent.spec.options and self._tokens.was_admitted(who)
        return started_here or agent.nonce in self._starting

    async def end_what_is_over(self) -> None:
        """End processes of launches that are over and did not end by themselves."""
        for nonce, (launch, until) in list(self._over.items()):
            place = launch.place
            if await anyio.to_thread.run_sync(processes.runs, place):
                if passed_s() < until:
                    continue
                with suppress(Unavailable):
                    await processes.end(place.pid, place.start, place.group, nonce, _GRACE_S)
                continue
            del self._over[nonce]
