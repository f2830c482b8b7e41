"""Lets hosts that write to the same team take turns, so that they seldom conflict.

The id of each message names the host that wrote it, so all hosts know who wrote recently. The one
that has not written for the longest time goes first. The others wait until it has written, or has
had the time to. So a host that is slower than the others gets its turn too.

This is not a lock: the servers decide, and refuse a write only if another was faster.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Callable
from contextlib import suppress

_WRITERS_MAX = 8
_RECENT_S = 0.2
_TURN_MIN_S = 0.006
_LONG_S = 0.01
_SLOWER = 2.0
_WAIT_MAX_S = 0.15
_DRAWN_S = 0.0015
_DRAWN_MAX = 3
_GAP_EVERY = 32
_GAPS_S = 5.0
_SEPARATOR = "."


def writer_of(eid: str) -> str:
    """Return which host wrote the event with that id; empty if it is of an earlier version."""
    writer, separator, _ = eid.partition(_SEPARATOR)
    return writer if separator else ""


class Contention:
    """Who has written to a team recently, and when it is this host's turn."""

    def __init__(self) -> None:
        self.writer = secrets.token_hex(6)
        self._count = 0
        # Least recently first. Hosts that let their turn pass are not in it.
        self._writers: list[str] = []
        self._last = 0.0
        self._messages = 0
        self._dropped = -_GAPS_S
        self._turn_s = _TURN_MIN_S

    def new_id(self) -> str:
        """Return an id for a message of this host that no other message has."""
        self._count += 1
        return f"{self.writer}{_SEPARATOR}{self._count}"

    def wrote(self, writer: str | None) -> None:
        """Record a message of a host, perhaps of this one. None: a snapshot takes nobody's turn."""
        self._last = time.monotonic()
        if writer is None:
            return
        self._messages += 1
        writers = self._writers
        if writer in writers:
            place = writers.index(writer)
            if place:
                # Those before it had nothing to write, or were not fast enough.
                self._dropped = self._last
            elif len(writers) == 1:
                return
            del writers[: place + 1]
        writers.append(writer)
        del writers[:-_WRITERS_MAX]

    def forget(self) -> None:
        """Forget who wrote: it was long ago."""
        self._writers = []

    def took(self, seconds: float) -> None:
        """Record how long this host needed from its decision to the answer of the servers."""
        if seconds > _LONG_S:
            seconds = _LONG_S
        self._turn_s += (_SLOWER * seconds - self._turn_s) / 8

    @property
    def is_shared(self) -> bool:
        """Return whether other hosts wrote recently too, and may want to go on."""
        writers = self._writers
        if not writers or (len(writers) == 1 and writers[0] == self.writer):
            return self._leaves_gap
        return time.monotonic() - self._last < _RECENT_S

    @property
    def _leaves_gap(self) -> bool:
        """Return whether this is the moment for hosts that are too slow to get a turn otherwise."""
        if self._messages % _GAP_EVERY:
            return False
        return len(self._writers) > 1 or self._last - self._dropped < _GAPS_S

    def wait_s(self, times_lost: int) -> float:
        """Return how long to leave the log to the hosts whose turn it is."""
        wait_s = 0.0
        if self.writer in self._writers:
            ahead = self._writers.index(self.writer) + self._leaves_gap
            wait_s = ahead * max(self._turn_s, _TURN_MIN_S)
        elif random.random() < 0.5:
            # Several may be new. Those that were refused try at different moments.
            wait_s = random.uniform(0, min(times_lost, _DRAWN_MAX) * _DRAWN_S)
        return self._last + wait_s - time.monotonic()

    async def turn(self, times_lost: int, heard: asyncio.Event, take: Callable[[], None]) -> None:
        """Wait until it is this host's turn, or too long. `take` applies what was heard."""
        until = time.monotonic() + _WAIT_MAX_S
        take()
        while self.is_shared:
            wait_s = min(self.wait_s(times_lost), until - time.monotonic())
            if wait_s <= 0:
                return
            heard.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await heard.wait()
            take()
