"""How hosts that write to one team at the same time keep out of each other's way.

Whoever has just written knows the head of the log before all others: he would win every race. So
those who lost wait for a moment of silence, and those who win leave one from time to time.
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
    """What one host knows of how often it and others write to a team."""

    def __init__(self) -> None:
        self._in_a_row = 0
        self._others_wrote = 0.0

    def won(self) -> None:
        """Note an event of this host."""
        self._in_a_row += 1

    def lost(self) -> None:
        """Note an event of another host."""
        self._in_a_row, self._others_wrote = 0, time.monotonic()

    async def let_others(self) -> None:
        """Pause after some events in a row, if other hosts write to this team too."""
        if self._in_a_row >= _IN_A_ROW_MAX:
            if time.monotonic() - self._others_wrote < _OTHERS_S:
                await asyncio.sleep(_PAUSE_S)
            self._in_a_row = 0

    async def silence(self, times_lost: int, heard: asyncio.Event, head: Callable[[], int]) -> None:
        """Wait until nothing was heard for a moment, or it takes too long.

        `head` takes in what was heard, and says where the log is then.
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
