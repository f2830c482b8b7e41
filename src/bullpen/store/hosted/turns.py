"""Turns at a team: first come, first served, each for a short time."""

from __future__ import annotations

import asyncio
from collections import deque


class Turns:
    """The turns at one team. A client that stalls loses its turn; a lost connection ends it."""

    def __init__(self, *, lease_s: float) -> None:
        self._lease_s = lease_s
        self._holder: str | None = None
        self._waiting: deque[tuple[str, asyncio.Future[None]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Return whether nobody has it or waits for it."""
        return self._holder is None and not self._waiting

    async def take(self, ticket: str) -> None:
        """Wait for the turn. A client that stops waiting must also give it back."""
        if self.idle:
            self._begin(ticket)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((ticket, turn))
        await turn

    def keep(self, ticket: str) -> None:
        """Keep the turn while the host works for its holder."""
        if self._holder == ticket:
            self._stop_timer()

    def renew(self, ticket: str) -> None:
        """Restart the holder's time."""
        if self._holder == ticket:
            self._start_timer()

    def give_back(self, ticket: str) -> None:
        """End a turn, or the wait for it."""
        if self._holder == ticket:
            self._next()
            return
        self._waiting = deque(waits for waits in self._waiting if waits[0] != ticket)

    def _next(self) -> None:
        self._stop_timer()
        self._holder = None
        while self._waiting:
            ticket, turn = self._waiting.popleft()
            if not turn.done():
                self._begin(ticket)
                turn.set_result(None)
                return

    def _begin(self, ticket: str) -> None:
        self._holder = ticket
        self._start_timer()

    def _start_timer(self) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(self._lease_s, self._next)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
