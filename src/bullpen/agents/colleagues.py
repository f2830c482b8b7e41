"""What an agent may do about other agents: the supervisor, with the agent's own name in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bullpen.agents.drivers.base import Wanted
from bullpen.agents.launching import Spawned
from bullpen.agents.supervisor import Stopped, Supervisor
from bullpen.errors import Refused
from bullpen.protocol.agent import AgentFacts, AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.team.team import Team

MakeSpec = Callable[[Wanted, str, AgentFacts], Awaitable[AgentSpec]]
"""The spec of a teammate, from what was asked for and what is known of whoever asks."""


class TeamColleagues:
    """Spawning and stopping on behalf of one agent."""

    def __init__(self, supervisor: Supervisor, team: Team, *, agent: str, make: MakeSpec) -> None:
        self._supervisor = supervisor
        self._team = team
        self._agent = agent
        self._make = make

    async def spawn(self, wanted: Wanted) -> str:
        """Start a teammate. The name is the key, so that asking twice is once."""
        _, parent = await self._team.agents.get(self._agent)
        spec = await self._make(wanted, self._agent, parent)
        key = f"{self._agent}/{wanted.name}"
        return spawned(await self._supervisor.spawn(wanted.name, spec, by=self._agent, key=key))

    async def stop(self, name: str, *, reason: str | None) -> str:
        """Stop a teammate that this agent leads or spawned."""
        _, agent = await self._team.agents.get(name)
        if self._agent not in (LEAD, agent.parent) or name == self._agent:
            raise Refused(
                f"{self._agent!r} may not stop {name!r}.",
                reason="not_lead",
                remedy="Ask the lead to.",
            )
        return ended(name, await self._supervisor.stop(name, by=self._agent, reason=reason))


def spawned(made: Spawned) -> str:
    """What whoever asked for a teammate is told."""
    if not made.fresh:
        return f"{made.name} is there already; it was not started again."
    where = f"{made.driver}, {made.backend}"
    return f"{made.name} is ready ({where}). Its prompt is its first message."


def ended(name: str, stopped: Stopped) -> str:
    """What whoever had a teammate stopped is told."""
    return f"{name} is stopped." if stopped.was_alive else f"{name} had ended already."
