"""What local agents may ask their host besides the store, each for agents that it spawned."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bullpen.agents.contracts.machines import ON
from bullpen.agents.supervisor.machines.over_nats import NatsHosts
from bullpen.app.remote_stores import THROUGH_HOST
from bullpen.app.settings import HOST_TOKEN, STORE
from bullpen.errors import NotFound, Refused
from bullpen.fleet.host.launches import LaunchTokens
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.names import LEAD
from bullpen.store.contract import Store
from bullpen.store.hosted.rights import check_team
from bullpen.store.hosted.tokens import TokenIdentity
from bullpen.store.nats.client.connection import NatsConnection

_GRACE_MAX_S = 600.0


class HostsOfDaemon(NatsHosts):
    """The hosts of the cell as the host process sees them. It admits agents to its socket."""

    def __init__(self, link: NatsConnection, socket: str, tokens: LaunchTokens) -> None:
        super().__init__(link, {STORE: f"{THROUGH_HOST}{socket}"})
        self._tokens = tokens

    async def admit(self, team: str, agent: str) -> Mapping[str, str]:
        """Return a secret for a new launch; that of the earlier launch becomes invalid."""
        return {**self.variables, HOST_TOKEN: self._tokens.admit(team, agent)}


class HostRequests:
    """Answers agents' questions. What it believes of an agent is in records that hosts wrote."""

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
                labels = _labels_of(agent, facts, str(args["nonce"]))
                by = who.agent or LEAD
                return await self._hosts.place(team, agent, facts.nonce, labels, by=by)
            case "stop":
                if facts.process is None or facts.nonce != str(args["nonce"]):
                    return None
                grace_s = min(float(args["grace_s"]), _GRACE_MAX_S)
                return await self._hosts.stop(
                    facts.process, team, agent, facts.nonce, grace_s=grace_s
                )
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
        is_itself = not who.is_operator and agent == who.agent
        if facts is not None and not is_itself and (is_above or facts.parent == who.agent):
            return facts
        if is_above and not is_itself:
            raise NotFound(
                f"Team {team!r} has no agent {agent!r}.",
                remedy=f"List the agents: bullpen ps -t {team}",
            )
        raise Refused(
            f"Agent {who.agent!r} did not spawn {agent!r}.",
            reason="other_identity",
            remedy="Ask the lead.",
        )


def _labels_of(name: str, agent: AgentFacts, nonce: str) -> dict[str, str]:
    """Return the labels of the machine that a launch waits for. Refuses any other launch."""
    labels = agent.spec.options.get(ON)
    waits = agent.phase == "starting" and agent.process is None and agent.nonce == nonce
    if not waits or not isinstance(labels, dict):
        raise Refused(
            f"{name!r} does not wait for a machine.",
            reason="not_starting",
            remedy="Spawn it with labels of a machine, or resume it when it has ended.",
        )
    return {str(key): str(value) for key, value in labels.items()}


def _check_starts_here(name: str, agent: AgentFacts) -> None:
    """Refuse the secret of a running agent: its holder could act in the agent's name."""
    if agent.phase != "starting" or agent.process is not None or ON in agent.spec.options:
        raise Refused(
            f"You are not about to start {name!r}.",
            reason="not_starting",
            remedy="Spawn it, or resume it when it has ended.",
        )
