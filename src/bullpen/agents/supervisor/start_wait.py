"""How long the start of an agent may take, and what it is doing meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import anyio

from bullpen.agents.supervisor.roster_view import STARTING
from bullpen.agents.system import processes
from bullpen.agents.system.footprint import load_factor
from bullpen.agents.system.vendors.programs import READY_S
from bullpen.errors import Unavailable, one_error
from bullpen.protocol.agent import AgentFacts
from bullpen.protocol.clock import Clock
from bullpen.team.team import Team

T = TypeVar("T")
Step = Callable[[str, str], None]
"""Gets the name of an agent and what it is doing, each time that changes."""

_BEAT_S = 1.0


class StartDeadline:
    """Until when an agent has to be ready. On a busy machine it gets longer.

    A number of seconds that somebody asked for is kept as it is.
    """

    def __init__(
        self,
        seconds: float | None = None,
        *,
        now: Callable[[], float] = anyio.current_time,
        load: Callable[[], float] = load_factor,
    ) -> None:
        self._now, self._load = now, load
        self._begun = now()
        self._seconds = READY_S if seconds is None else seconds
        self._stretches = seconds is None
        self._factor = 1.0
        self._more = 0.0

    def put_off(self, seconds: float) -> None:
        """Do not count these seconds: what they went by with is not the start itself."""
        self._more += seconds

    @property
    def left_s(self) -> float:
        """How many seconds are left; never less than 0."""
        if self._stretches:
            # The load may rise while the agent starts, and what was granted stays.
            self._factor = max(self._factor, self._load())
        until = self._begun + self._seconds * self._factor + self._more
        return max(0.0, until - self._now())

    @property
    def given_s(self) -> float:
        """How many seconds there were for the start itself."""
        return self._seconds * self._factor

    @property
    def has_passed(self) -> bool:
        """Whether it is over."""
        return self.left_s <= 0


async def with_beats(
    team: Team, name: str, agent: AgentFacts, act: Callable[[], Awaitable[T]], *, clock: Clock
) -> T:
    """Do something that begins a start; meanwhile heartbeats say that the agent is starting."""

    async def beat() -> None:
        while True:
            await anyio.sleep(_BEAT_S)
            with suppress(Unavailable):
                await team.agents.beat(processes.starting_beat(name, agent, STARTING, clock()))

    with one_error():
        async with anyio.create_task_group() as group:
            group.start_soon(beat)
            result = await act()
            group.cancel_scope.cancel()
    return result
