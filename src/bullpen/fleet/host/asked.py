"""What local agents may ask their host beside the store, each in its own name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bullpen.agents.hosts.base import ON
from bullpen.agents.hosts.over_nats import NatsHosts
from bullpen.app import HOST_TOKEN, STORE, THROUGH_HOST
from bullpen.errors import NotFound, Refused
from bullpen.fleet.host.launches import Launches
from bullpen.protocol.agent import AgentFacts, ProcessRecord
from bullpen.protocol.names import LEAD
from bullpen.store.base import Store
from bullpen.store.hosted.identities import Identity
from bullpen.store.hosted.rights import check_team
from bullpen.store.nats.connection import Connection


class HostsOfDaemon(NatsHosts):
    """The machines of the cell as the host process has them: it admits agents to its socket."""

    launches: Launches

    def __init__(self, link: Connection, socket: str) -> None:
        super().__init__(link, {STORE: f"{THROUGH_HOST}{socket}"})

    async def admit(self, team: str, agent: str) -> Mapping[str, str]:
        """A secret of its own for a new launch; that of the launch before is void."""
        return {**self.variables, HOST_TOKEN: self.launches.admit(team, agent)}


class Asked:
    """Answers what agents ask. The rules of teamwork have run in the agent's own process."""

    def __init__(
        self, store: Store, hosts: HostsOfDaemon, join: Callable[[str], Awaitable[None]]
    ) -> None:
        self._store = store
        self._hosts = hosts
        self._join = join

    async def __call__(self, who: Identity, what: str, args: dict[str, Any]) -> Any:
        """Raises Refused for what is not for this agent."""
        if what == "who":
            return await self._hosts.who()
        team, agent = str(args["team"]), str(args["agent"])
        check_team(who, team)
        facts = await self._checked(who, team, agent)
        match what:
            case "admit":
                _check_starts_here(agent, facts)
                await self._join(team)
                return dict(await self._hosts.admit(team, agent))
            case "place":
                labels = {str(key): str(value) for key, value in args["labels"].items()}
                nonce, by = str(args["nonce"]), who.agent or LEAD
                return await self._hosts.place(team, agent, nonce, labels, by=by)
            case "stop":
                place, grace_s = ProcessRecord.parse(args["place"]), float(args["grace_s"])
                nonce = str(args["nonce"])
                return await self._hosts.stop(place, team, agent, nonce, grace_s=grace_s)
        raise Refused(f"A host cannot be asked for {what!r}.", reason="unknown_question")

    async def _checked(self, who: Identity, team: str, agent: str) -> AgentFacts:
        """Only its parent, the lead or the user of the machine has a say about an agent."""
        member = (await self._store.config(team)).member(agent)
        facts = None if member is None else member.agent
        is_above = who.is_operator or who.agent == LEAD
        if facts is not None and (is_above or facts.parent == who.agent):
            return facts
        if is_above:
            raise NotFound(f"There is no agent {agent!r} in team {team!r}.")
        raise Refused(
            f"Agent {who.agent!r} has not spawned {agent!r}.",
            reason="other_identity",
            remedy="Ask the lead.",
        )


def _check_starts_here(name: str, agent: AgentFacts) -> None:
    """Nobody gets the secret of an agent that runs: with it, it could speak in its name."""
    if agent.phase != "starting" or agent.place is not None or ON in agent.asked.options:
        raise Refused(
            f"{name!r} is not about to be started by you.",
            reason="not_starting",
            remedy="Spawn it, or resume it when it has ended.",
        )
