"""The heartbeat of this host, and what it may conclude from being heard."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import anyio

from bullpen.agents.hosts.over_nats import BEATS, beat_key
from bullpen.agents.hosts.records import HostBeat, HostPace
from bullpen.errors import BullpenError
from bullpen.protocol import jsontext
from bullpen.store.nats import wire
from bullpen.store.nats.connection import Connection
from bullpen.store.nats.wire import ApiError, NoAnswer, api

_TRY_S = 5.0
_NS = 1_000_000_000


def passed_s() -> float:
    """Seconds since some moment, also those in which the machine slept."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


async def pace_of(link: Connection) -> HostPace:
    """The times that the servers set: they forget a heartbeat after so long.

    Raises:
        Unavailable: they do not answer.
    """
    if link.bearer.is_bound:
        # Such a key may not ask. It is what cells are made with.
        return HostPace()
    info = await api(await link.client(), f"STREAM.INFO.{BEATS}", None, timeout_s=_TRY_S)
    return HostPace(info["config"]["max_age"] / _NS)


class Heart:
    """Says every few seconds that this host is there. What counts is when it was last heard.

    A host that was not heard for as long as the servers keep a heartbeat may have been given up,
    and its agents with it. One that could not make itself heard a moment ago cannot tell whether
    others are gone or only as cut off as itself was.
    """

    def __init__(self, link: Connection, name: str, saying: Callable[[], HostBeat]) -> None:
        self._link = link
        self._name = name
        self._saying = saying
        self.pace = HostPace()
        self.began_s: float | None = None
        self._heard_s: float | None = None
        self._steady_s: float | None = None
        self._now = anyio.Event()
        self._was_heard = anyio.Event()
        link.on_reconnect.append(self.hurry)

    def hurry(self) -> None:
        """Beat as soon as possible."""
        self._now.set()

    @property
    def is_known(self) -> bool:
        """Whether the servers surely still keep a heartbeat of this host."""
        return self._heard_s is not None and passed_s() - self._heard_s < self.pace.ttl_s

    @property
    def is_steady(self) -> bool:
        """Whether it was heard all the time for as long as the servers keep a heartbeat."""
        return (
            self.is_known
            and self._steady_s is not None
            and passed_s() - self._steady_s >= self.pace.ttl_s
        )

    async def beat(self) -> bool:
        """Say it once; whether that was heard."""
        # From before it was sent: the servers keep it no shorter than from then on.
        sent_s = passed_s()
        try:
            client = await self._link.client()
            data = jsontext.dumps_line(self._saying().raw)
            await wire.replace(client, beat_key(self._name), data, timeout_s=_TRY_S)
        except (NoAnswer, ApiError, BullpenError):
            self._steady_s = None
            return False
        if self._heard_s is None or sent_s - self._heard_s >= self.pace.ttl_s:
            self.began_s, self._steady_s = sent_s, None
        if self._steady_s is None:
            self._steady_s = sent_s
        self._heard_s = sent_s
        heard, self._was_heard = self._was_heard, anyio.Event()
        heard.set()
        return True

    async def go_on(self) -> None:
        """Beat for ever."""
        while True:
            self._now = anyio.Event()
            with anyio.move_on_after(self.pace.beat_s):
                await self._now.wait()
            await self.beat()

    async def heard(self) -> None:
        """Wait until it is heard the next time."""
        await self._was_heard.wait()

    async def stop(self) -> None:
        """Have the servers forget it: this host is gone on purpose."""
        with suppress(NoAnswer, ApiError, BullpenError):
            client = await self._link.client()
            await wire.replace(client, beat_key(self._name), b"", timeout_s=_TRY_S)
