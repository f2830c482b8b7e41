"""Turns: those in this process who use the log of a team do so one after another."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from bullpen.errors import Unavailable


class Turns:
    """Who has the turn at a team."""

    def __init__(
        self, wait_s: float, *, busy: Callable[[], Unavailable], ended: Callable[[], None]
    ) -> None:
        self._wait_s = wait_s
        self._busy = busy
        self._ended = ended
        self._lock = asyncio.Lock()
        self._waiting = 0

    @property
    def is_taken(self) -> bool:
        """Return whether somebody has the turn."""
        return self._lock.locked()

    async def __aenter__(self) -> float:
        """Take the turn; returns its deadline. Raises Unavailable if others take too long."""
        deadline = time.monotonic() + self._wait_s
        if self._lock.locked() or self._waiting:
            await self._wait()
        else:
            # Immediately, and so without a timer.
            await self._lock.acquire()
        return deadline

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()
        self._ended()

    async def _wait(self) -> None:
        self._waiting += 1
        try:
            async with asyncio.timeout(self._wait_s):
                await self._lock.acquire()
        except TimeoutError:
            raise self._busy() from None
        finally:
            self._waiting -= 1
