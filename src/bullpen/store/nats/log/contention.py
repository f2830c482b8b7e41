"""Keeps hosts that write to the same team from getting in each other's way.

The host that has just written knows the head of the log before all others, so it would win every
race. Hosts that lost therefore wait for a moment without writes, and hosts that win pause from time
to time.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress

_QUIET_S = (0.001, 0.003)
_BURST_S = 0.03
_IN_A_ROW_MAX = 12
_PAUSE_S = 0.003
_OTHERS_S = 1.0


class Contention:
    """How often this host and others have written to a team recently."""

    def __init__(self) -> None:
        self._in_a_row = 0
        self._others_wrote = 0.0

    def won(self) -> None:
        """Record an event of this host."""
        self._in_a_row += 1

    def lost(self) -> None:
        """Record an event of another host."""
        self._in_a_row, self._others_wrote = 0, time.monotonic()

    @property
    def is_due(self) -> bool:
        """Return whether this host wrote often without a pause."""
        return self._in_a_row >= _IN_A_ROW_MAX

    async def let_others(self) -> None:
        """Pause, if other hosts also write to this team."""
        if time.monotonic() - self._others_wrote < _OTHERS_S:
            await asyncio.sleep(_PAUSE_S)
        self._in_a_row = 0

    async def silence(self, times_lost: int, heard: asyncio.Event, head: Callable[[], int]) -> None:
        """Wait until nothing was heard for a moment, or it takes too long.

        `head` applies what was heard, and returns where the log is then.
        """
        until = time.monotonic() + _BURST_S * min(times_lost, 4)
        before = head()
        while time.monotonic() < until:
            heard.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(random.uniform(*_QUIET_S)):
                    await heard.wait()
            if (now := head()) == before:
                return
            before = now
