"""What local agents may ask their host besides the store, each in its own name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bullpen.agents.contracts.machines import ON
from bullpen.agents.supervisor.machines.over_nats import NatsHosts
from bullpen.app.settings import HOST_TOKEN, STORE
from bullpen.app.stores import THROUGH_HOST
from bullpen.errors import NotFound, Refused
from bullpen.fleet.host.launches import LaunchTokens
from bullpen.protocol.agent import AgentFacts, ProcessRecord
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Store
from bullpen.store.hosted.rights import check_team
from bullpen.store.hosted.tokens import TokenIdentity
from bullpen.store.nats.client.connection import NatsConnection


class HostsOfDaemon(NatsHosts):
    """The hosts of the cell as the host process sees them. It admits agents to its socket."""

    def __init__(self, link: NatsConnection, socket: str, tokens: LaunchTokens) -> None:
        super().__init__(link, {STORE: f"{THROUGH_HOST}{socket}"})
        self._tokens = tokens

    async def admit(self, team: str, agent: str) -> Mapping[str, str]:
        """Return a secret for a new launch; that of the earlier launch becomes invalid."""
        return {**self.variables, HOST_TOKEN: self._tokens.admit(team, agent)}


class HostRequests:
    """Answers agents' questions. The rules of teamwork have run in the agent's own process."""

    def __init__(
        self, store: Store, hosts: HostsOfDaemon, join: Callable[[str], Awaitable[None]]
    ) -> None:
        self._store = store
        self._hosts = hosts
        self._join = join

    async def __call__(self, who: TokenIdentity, what: str, args: dict[str, Any]) -> Any:
        """Answer one question. Raises Refused if this agent may not ask it."""
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
        raise Refused(
            f"The host does not know the question {what!r}.",
            reason="unknown_question",
            remedy="Use the same version of Bullpen here and on the host.",
        )

    async def _checked(self, who: TokenIdentity, team: str, agent: str) -> AgentFacts:
        """Refuse everybody except an agent's parent, the lead and the user of the machine."""
        member = (await self._store.config(team)).member(agent)
        facts = None if member is None else member.agent
        is_above = who.is_operator or who.agent == LEAD
        if facts is not None and (is_above or facts.parent == who.agent):
            return facts
        if is_above:
            raise NotFound(
                f"Team {team!r} has no agent {agent!r}.",
                remedy=f"List the agents: bullpen ps -t {team}",
            )
        raise Refused(
            f"Agent {who.agent!r} did not spawn {agent!r}.",
            reason="other_identity",
            remedy="Ask the lead.",
        )


def _check_starts_here(name: str, agent: AgentFacts) -> None:
    """Refuse the secret of a running agent: its holder could act in the agent's name."""
    if agent.phase != "starting" or agent.process is not None or ON in agent.spec.options:
        raise Refused(
            f"You are not about to start {name!r}.",
            reason="not_starting",
            remedy="Spawn it, or resume it when it has ended.",
        )
