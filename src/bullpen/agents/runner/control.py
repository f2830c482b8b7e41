"""Control the loop of one agent: wake it, interrupt its turn, end it.

The loop, the desk, the hooks and the owner of the process share one instance.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, Self, TypeVar

import anyio

from bullpen.protocol.agent import End, Failure
from bullpen.team.budget.rules import OverBudget, Reached

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ended:
    """How an agent ended."""

    end: End
    cause: str | None = None
    # The limit that it reached, if that is why.
    reached: Reached | None = None
    # Why the model's API failed its last turn, if that is why.
    failure: Failure | None = None

    @classmethod
    def at_limit(cls, over: OverBudget) -> Self:
        """The end of an agent that reached a limit."""
        return cls("stopped", f"{over.message} {over.remedy}", over.reached)


# `limit` ends the agent; `task`, a used-up task budget, ends only the turn.
Interruption = Literal["cancel", "pause", "stop", "limit", "task"]


class RunnerControl:
    """The end of one agent, what interrupts its turn, and what wakes it between turns."""

    def __init__(self) -> None:
        self.ended: Ended | None = None
        self._interruption: Interruption | None = None
        self._scope: anyio.CancelScope | None = None
        self._woken = anyio.Event()

    def end(self, ended: Ended) -> Ended:
        """End after the turn. The first reason for the end is kept, and returned."""
        self.ended = self.ended or ended
        return self.ended

    def stop(self, end: End, cause: str) -> None:
        """End at once, even during a turn."""
        self.end(Ended(end, cause))
        self.interrupt("stop")

    @property
    def in_turn(self) -> bool:
        """Whether there is a turn, or a hook between turns, to interrupt."""
        return self._scope is not None

    def begin(self, deadline: float = math.inf) -> anyio.CancelScope:
        """The scope of a turn; call `over` after it."""
        self._scope = anyio.CancelScope(deadline=deadline)
        return self._scope

    def over(self) -> None:
        """End the scope of a turn."""
        self._scope = None

    async def interruptible(self, run: Callable[[], Awaitable[T]]) -> T | None:
        """Do something between turns; None if an order interrupts it."""
        try:
            with self.begin():
                return await run()
        finally:
            self.over()
        self.take_interruption()
        return None

    def interrupt(self, why: Interruption) -> None:
        """Interrupt the turn, if there is one, and wake the loop."""
        if self._scope is not None:
            self._interruption = why
            self._scope.cancel()
        self.wake()

    def cut(self) -> None:
        """Interrupt the turn without a reason; the caller knows it."""
        if self._scope is not None:
            self._scope.cancel()

    def end_turn_within(self, seconds: float) -> None:
        """Let the turn, if there is one, take only this much longer."""
        if self._scope is not None:
            self._scope.deadline = min(self._scope.deadline, anyio.current_time() + seconds)

    @property
    def interrupted(self) -> bool:
        """Whether the turn was interrupted and `take_interruption` not called yet."""
        return self._interruption is not None

    def take_interruption(self) -> Interruption | None:
        """Why the last turn was interrupted; returned once."""
        why, self._interruption = self._interruption, None
        return why

    def wake(self) -> None:
        """Wake the loop: something happened."""
        self._woken.set()

    @property
    def woken(self) -> bool:
        """Whether something happened since `clear_wake`."""
        return self._woken.is_set()

    def clear_wake(self) -> None:
        """Forget earlier wake-ups."""
        self._woken = anyio.Event()

    async def pause(self, seconds: float | None) -> None:
        """Wait until something happens, at most this long."""
        with anyio.move_on_after(seconds):
            await self._woken.wait()
