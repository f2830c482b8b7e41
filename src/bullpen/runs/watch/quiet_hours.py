"""Quiet hours: times of day at which all agents are paused."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import datetime

import anyio

from bullpen.errors import Invalid, NotFound, Refused
from bullpen.protocol.clock import Clock, now_ms
from bullpen.protocol.names import LEAD
from bullpen.team.agents import rules as agent_rules
from bullpen.team.team import Team

_SPAN = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)-([01]?\d|2[0-3]):([0-5]\d)")
_LOOK_S = 5.0

Order = Callable[[str, str, str], Awaitable[None]]
"""Gives an order to an agent: its name, the order, the reason."""


def span_of(text: str) -> tuple[int, int]:
    """Return the minutes of the day at which a quiet time begins and ends. Raises Invalid."""
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise Invalid(f"{text!r} is not a time span.", remedy='Write it like "22:00-06:30".')
    h1, m1, h2, m2 = map(int, found.groups())
    return h1 * 60 + m1, h2 * 60 + m2


def is_quiet(spans: Iterable[str], at: datetime) -> bool:
    """Return whether a time is in a quiet span. Spans may cross midnight."""
    minute = at.hour * 60 + at.minute
    for text in spans:
        begin, end = span_of(text)
        inside = begin <= minute < end if begin < end else minute >= begin or minute < end
        if inside:
            return True
    return False


def local(ms: int) -> datetime:
    """Return a moment in local time."""
    return datetime.fromtimestamp(ms / 1000).astimezone()


class QuietHours:
    """Pauses and resumes the agents of one team by the clock.

    The team records the pause, so that the next process that watches it can resume the agents.
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
        """Return whether it was quiet at the last check."""
        return self._quiet

    async def run(self, tell: Callable[[str], None]) -> None:
        """Check the clock until cancelled."""
        while True:
            await self.look(tell)
            await anyio.sleep(self._every_s)

    async def look(self, tell: Callable[[str], None] = lambda _: None) -> None:
        """Check the clock once, and pause or resume the agents."""
        config = await self._team.agents.config()
        facts = config.facts
        now = self._clock()
        self._quiet = is_quiet(facts.unattended.quiet, self._shown(now))
        if self._quiet and facts.quiet_ms is None:
            await self._team.origins.hush(now, by=LEAD)
            tell("quiet hours begin: all agents are paused")
        agents = {
            member.name: member.agent
            for member in agent_rules.living(config)
            if member.agent is not None and member.agent.phase == "running"
        }
        if self._quiet:
            for name, agent in agents.items():
                if agent.nonce not in self._paused and await self._ordered(name, "pause"):
                    self._paused.add(agent.nonce)
        elif facts.quiet_ms is not None:
            for name in agents:
                await self._ordered(name, "resume")
            self._paused.clear()
            await self._team.origins.hush(None, by=LEAD)
            tell("quiet hours are over: all agents are resumed")

    async def _ordered(self, name: str, action: str) -> bool:
        """Give an order; False if the agent has ended. Raises Unavailable: try again."""
        with suppress(NotFound, Refused):
            await self._order(name, action, "quiet hours")
            return True
        return False
