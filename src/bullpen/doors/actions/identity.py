"""Who acts from this process: the person or member that was named, or the agent it belongs to.

Every door takes the names `by`, `sender` and of a mailbox from here, before anything is written.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace

from anyio import to_thread

from bullpen.agents.permissions.speaker import agent_here, is_of_an_agent
from bullpen.app.person_key import show_key
from bullpen.app.settings import Settings
from bullpen.app.stores import open_teams_near
from bullpen.errors import BullpenError, NotFound, Refused, Unreadable
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Voice
from bullpen.protocol.team import TeamConfig
from bullpen.team.team import Team


class ActingIdentity:
    """Whoever runs this command, as far as the system can tell."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def speaks(self, team: Team) -> tuple[str, Voice]:
        """Who speaks in a team, and whether it is a person. An agent never speaks as one.

        Raises:
            Refused: it belongs to an agent that would speak as somebody else (other_identity), or
                lacks the key of a person (not_a_person).
        """
        name = await self._agent(team)
        return (await self._person(), "human") if name is None else (name, "agent")

    async def acts(self, team: Team) -> str:
        """In whose name this process changes a team. Raises as `speaks`."""
        return (await self.speaks(team))[0]

    async def stops(self, team: Team, reason: str | None) -> tuple[str, str | None]:
        """In whose name an agent is stopped, and why; a person has a reason of their own.

        Otherwise the agent of the lead would read that it stopped the agent itself.
        """
        by, voice = await self.speaks(team)
        return by, reason or ("a person stopped it" if voice == "human" else None)

    async def spawns(self, team: Team) -> tuple[str, tuple[str, AgentFacts] | None]:
        """Who spawns, and which agent that is: what it starts can do no more than it may itself."""
        by, voice = await self.speaks(team)
        return by, None if voice == "human" else (by, (await team.agents.get(by))[1])

    async def founds(self) -> str:
        """Who creates a team. Raises Refused: an agent cannot (not_a_person)."""
        await self.refuse_agents("create a team")
        return await self._person()

    async def reads_mail_of(self, team: Team, name: str | None) -> str:
        """Whose mailbox is read or marked: a person reads any, an agent only its own.

        Raises:
            Refused: it is another's mailbox (other_identity).
        """
        agent = await self._agent(team)
        if agent is None:
            return name or self._settings.agent
        if name not in (None, agent):
            raise Refused(
                f"Agent {agent!r} cannot read the mail of {name!r}.",
                reason="other_identity",
                remedy="Omit the name: an agent reads only its own mail.",
            )
        return agent

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

    async def _person(self) -> str:
        """The member in whose name a person acts. Raises Refused without a person's key."""
        await to_thread.run_sync(show_key, self._settings.home, os.environ)
        return self._settings.agent

    async def _agent(self, team: Team) -> str | None:
        """The agent of a team to which this process belongs; None if it is a person's.

        Raises:
            Refused: it belongs to an agent that would speak as somebody else (other_identity).
        """
        try:
            config = await team.agents.config()
        except (NotFound, Unreadable):
            # Whatever is done about such a team says so itself. Its agents are not known.
            config = TeamConfig.new(name=team.name, members=[])
        name = await to_thread.run_sync(agent_here, config, os.environ)
        if name is None:
            others = await self._configs()
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
        async with open_teams_near(self._settings) as teams:
            for name in await teams.names():
                with suppress(BullpenError):
                    found.append(await teams.open(name).agents.config())
        return found


class KnownPerson(ActingIdentity):
    """A person whose process was found to be theirs before agents began to run in it.

    Whose process it is cannot change, but afterwards it cannot be told from its records.
    """

    @classmethod
    async def here(cls, settings: Settings, what: str) -> KnownPerson:
        """The person of this process. Raises Refused: an agent cannot do that (not_a_person)."""
        await cls(settings).refuse_agents(what)
        # A member that is a team has a name of its own in the environment. Here it is the person.
        return cls(replace(settings, agent=LEAD))

    async def _agent(self, team: Team) -> str | None:
        return None
