"""An event loop whose clock stands still while its process is stopped.

The clock for durations stands still while a machine sleeps, but not while a process is stopped
(Ctrl-Z, a debugger, a frozen container). All its timeouts would then end at once when it goes on:
commands that were about to finish would be killed, and done again.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio

from bullpen.team.agents.liveness import LATE_S

T = TypeVar("T")


class LateSelector(selectors.DefaultSelector):
    """Waits for events, and counts for how long this process did not run."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._left_s: float | None = None
        self.lost_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait. Both the wait and the work since the last one may have been interrupted."""
        began_s = self._now()
        if self._left_s is not None:
            self._count(began_s - self._left_s)
        found = super().select(timeout)
        self._left_s = self._now()
        if timeout is not None:
            self._count(self._left_s - began_s - max(0.0, timeout))
        return found

    def _count(self, late_s: float) -> None:
        if late_s > LATE_S:
            self.lost_s += late_s


class SteadyLoop(asyncio.SelectorEventLoop):
    """An event loop that does not count the time in which its process was stopped."""

    def __init__(self) -> None:
        self._late = LateSelector()
        super().__init__(self._late)

    def time(self) -> float:
        """Return the seconds for which this process could run."""
        return super().time() - self._late.lost_s


def run_steadily(function: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Run an asynchronous function in such a loop."""
    return anyio.run(function, *args, backend_options={"loop_factory": SteadyLoop})
