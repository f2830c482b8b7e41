"""Quiet hours: times of day at which nobody works. Everybody is paused, and goes on afterwards."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import datetime

import anyio

from bullpen.errors import BullpenError, Invalid
from bullpen.protocol.names import LEAD
from bullpen.store.clock import Clock, now_ms
from bullpen.team import agent_rules
from bullpen.team.team import Team

_SPAN = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)-([01]?\d|2[0-3]):([0-5]\d)")
_LOOK_S = 5.0

Order = Callable[[str, str, str], Awaitable[None]]
"""Gives an agent an order by its name: which, and why."""


def span_of(text: str) -> tuple[int, int]:
    """The minutes of the day between which it is quiet. Raises Invalid."""
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise Invalid(f"{text!r} are no hours.", remedy='Write them like "22:00-06:30".')
    h1, m1, h2, m2 = map(int, found.groups())
    return h1 * 60 + m1, h2 * 60 + m2


def is_quiet(spans: Iterable[str], at: datetime) -> bool:
    """Whether it is quiet at a time of day. Hours may go past midnight; equal ones are all day."""
    minute = at.hour * 60 + at.minute
    for text in spans:
        begin, end = span_of(text)
        inside = begin <= minute < end if begin < end else minute >= begin or minute < end
        if inside:
            return True
    return False


def local(ms: int) -> datetime:
    """What clocks here show."""
    return datetime.fromtimestamp(ms / 1000).astimezone()


class QuietHours:
    """Pauses and resumes the agents of one team by the clock.

    That it did is recorded in the team, so that whoever watches next knows whom to let go on.
    """

    name = "quiet hours"

    def __init__(
        self,
        team: Team,
        order: Order,
        *,
        clock: Clock = now_ms,
        shown: Callable[[int], datetime] = local,
        every_s: float = _LOOK_S,
    ) -> None:
        self._team = team
        self._order = order
        self._clock = clock
        self._shown = shown
        self._every_s = every_s
        self._quiet = False
        self._paused: set[str] = set()

    def now(self) -> bool:
        """Whether it was quiet when it was last looked."""
        return self._quiet

    async def run(self, tell: Callable[[str], None]) -> None:
        """Look at the clock until cancelled."""
        while True:
            await self.look(tell)
            await anyio.sleep(self._every_s)

    async def look(self, tell: Callable[[str], None] = lambda _: None) -> None:
        """Look at the clock once, and pause or resume whoever is to be."""
        config = await self._team.agents.config()
        facts = config.facts
        now = self._clock()
        self._quiet = is_quiet(facts.habits.quiet, self._shown(now))
        if self._quiet and facts.quiet_ms is None:
            await self._team.origins.hush(now, by=LEAD)
            tell("quiet hours begin: everybody is paused")
        agents = {
            member.name: member.agent
            for member in agent_rules.living(config)
            if member.agent is not None and member.agent.phase == "running"
        }
        if self._quiet:
            for name, agent in agents.items():
                if agent.nonce not in self._paused and await self._told(name, "pause"):
                    self._paused.add(agent.nonce)
        elif facts.quiet_ms is not None:
            for name in agents:
                await self._told(name, "resume")
            self._paused.clear()
            await self._team.origins.hush(None, by=LEAD)
            tell("quiet hours are over: everybody goes on")

    async def _told(self, name: str, action: str) -> bool:
        """Give an order; False if the agent is gone by now."""
        with suppress(BullpenError):
            await self._order(name, action, "quiet hours")
            return True
        return False
