"""Who acts from this process: the person or member that was named, or the agent it belongs to."""

from __future__ import annotations

import os
from contextlib import suppress

from anyio import to_thread

from bullpen.agents.permissions.speaker import agent_here, is_of_an_agent
from bullpen.app.settings import Settings
from bullpen.app.stores import open_teams
from bullpen.errors import BullpenError, Refused
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.request import Voice
from bullpen.protocol.team import TeamConfig
from bullpen.team.team import Team


class ActingIdentity:
    """Whoever runs this command, as far as the system can tell."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def speaks(self, team: Team) -> tuple[str, Voice]:
        """Who speaks in a team, and whether it is a person. An agent never speaks as one."""
        name = await self._agent(team)
        return (self._settings.agent, "human") if name is None else (name, "agent")

    async def spawns(self, team: Team) -> tuple[str, tuple[str, AgentFacts] | None]:
        """Who spawns, and which agent that is: what it starts can do no more than it may itself."""
        name = await self._agent(team)
        if name is None:
            return self._settings.agent, None
        return name, (name, (await team.agents.get(name))[1])

    async def refuse_agents(self, what: str) -> None:
        """Refuse what only people may do.

        Raises:
            Refused: this process belongs to an agent (not_a_person).
        """
        teams = await self._configs()
        if await to_thread.run_sync(is_of_an_agent, teams, os.environ):
            raise Refused(
                f"An agent cannot {what}.",
                reason="not_a_person",
                remedy="Spawn teammates instead: they can do no more than you.",
            )

    async def _agent(self, team: Team) -> str | None:
        """The agent of a team to which this process belongs; None if it is a person's.

        Raises:
            Refused: it belongs to an agent that would speak as somebody else (other_identity).
        """
        config, others = await team.agents.config(), await self._configs()
        name = await to_thread.run_sync(lambda: agent_here(config, os.environ, others=others))
        acts_as = self._settings.agent
        if name not in (None, acts_as) and self._settings.agent_source != "default":
            raise Refused(
                f"Agent {name!r} cannot act as {acts_as!r}.",
                reason="other_identity",
                remedy=f"Omit --as: you are {name}.",
            )
        return name

    async def _configs(self) -> list[TeamConfig]:
        """The teams of the home, as far as they can be read."""
        found = []
        async with open_teams(self._settings) as teams:
            for name in await teams.names():
                with suppress(BullpenError):
                    found.append(await teams.open(name).agents.config())
        return found
