"""Turns: those in this process who use the log of a team do so one after another."""

from __future__ import annotations

import asyncio
import time
from collections import deque
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
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.is_taken = False

    async def __aenter__(self) -> float:
        """Take the turn; returns its deadline. Raises Unavailable if others take too long."""
        deadline = time.monotonic() + self._wait_s
        if self.is_taken:
            await self._wait()
        else:
            # Immediately, and so without a timer.
            self.is_taken = True
        return deadline

    async def __aexit__(self, *_: object) -> None:
        self._pass_on()
        self._ended()

    def _pass_on(self) -> None:
        """Give the turn to whoever has waited longest, and nobody can come in between."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self.is_taken = False

    async def _wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(self._wait_s):
                await waiter
        except BaseException as error:
            if waiter.done() and not waiter.cancelled():
                # It got the turn at the moment it gave up.
                self._pass_on()
            elif waiter in self._waiting:
                self._waiting.remove(waiter)
            if isinstance(error, TimeoutError):
                raise self._busy() from None
            raise
