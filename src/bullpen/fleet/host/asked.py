"""What local agents may ask their host beside the store, each in its own name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bullpen.agents.hosts.over_nats import NatsHosts
from bullpen.app import HOST_TOKEN, STORE, THROUGH_HOST
from bullpen.errors import Refused
from bullpen.protocol.agent import ProcessRecord
from bullpen.protocol.names import LEAD
from bullpen.store.base import Store
from bullpen.store.hosted.identities import Identities, Identity
from bullpen.store.hosted.rights import check_team


class HostsOfDaemon(NatsHosts):
    """The machines of the cell as the host process has them: it admits agents to its socket."""

    def __init__(self, hosts: NatsHosts, identities: Identities, socket: str) -> None:
        super().__init__(hosts.link, {STORE: f"{THROUGH_HOST}{socket}"})
        self._identities = identities

    async def admit(self, team: str, agent: str) -> Mapping[str, str]:
        """A secret of its own for a new launch; that of the launch before is void."""
        token = self._identities.mint(Identity(team, agent))
        return {**self.variables, HOST_TOKEN: token}


class Asked:
    """Answers what agents ask. The rules of teamwork have run in the agent's own process."""

    def __init__(self, store: Store, hosts: HostsOfDaemon) -> None:
        self._store = store
        self._hosts = hosts

    async def __call__(self, who: Identity, what: str, args: dict[str, Any]) -> Any:
        """Raises Refused for what is not for this agent."""
        if what == "who":
            return await self._hosts.who()
        team, agent = str(args["team"]), str(args["agent"])
        check_team(who, team)
        await self._check_parent(who, team, agent)
        match what:
            case "admit":
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

    async def _check_parent(self, who: Identity, team: str, agent: str) -> None:
        """Only its parent, the lead or the user of the machine has a say about an agent."""
        if who.is_operator or who.agent == LEAD:
            return
        config = await self._store.config(team)
        member = config.member(agent)
        facts = None if member is None else member.agent
        if facts is None or facts.parent != who.agent:
            raise Refused(
                f"Agent {who.agent!r} has not spawned {agent!r}.",
                reason="other_identity",
                remedy="Ask the lead.",
            )
