"""The heartbeat of this host, and what follows from the servers receiving it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio

from bullpen.agents.supervisor.machines.host_records import HostBeat, HostPace
from bullpen.agents.supervisor.machines.over_nats import BEATS, beat_key
from bullpen.errors import BullpenError
from bullpen.protocol import json_text
from bullpen.store.nats.client import api_requests
from bullpen.store.nats.client.api_requests import (
    NO_STREAM,
    ApiError,
    NoAnswer,
    NoStream,
    api,
    unavailable_if_unanswered,
)
from bullpen.store.nats.client.connection import NatsConnection
from bullpen.store.nats.client.streams import with_stream

_TRY_S = 5.0
_NS = 1_000_000_000


def passed_s() -> float:
    """Return the seconds since some moment, including those in which the machine slept."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


async def pace_of(link: NatsConnection) -> HostPace:
    """Return the intervals that the servers set by forgetting heartbeats. Raises Unavailable."""
    if link.bearer.is_bound:
        # Such a key may not ask. Cells are created with this value.
        return HostPace()
    client = await link.client()

    async def ask() -> dict[str, Any]:
        try:
            return await api(client, f"STREAM.INFO.{BEATS}", None, timeout_s=_TRY_S)
        except ApiError as error:
            if error.err_code == NO_STREAM:
                raise NoStream(certain=True) from None
            raise

    with unavailable_if_unanswered("The servers did not say how long they remember a host"):
        info, _ = await with_stream(link, BEATS, ask)
    return HostPace(info["config"]["max_age"] / _NS)


class HostHeartbeat:
    """Sends a heartbeat every few seconds, and records when the servers last received one.

    If the servers received none for as long as they keep one, other hosts may have given up this
    host and its agents. If sending failed a moment ago, this host cannot tell whether others are
    gone or whether it was cut off itself.
    """

    def __init__(self, link: NatsConnection, name: str, saying: Callable[[], HostBeat]) -> None:
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
        """Send a heartbeat as soon as possible."""
        if len(self._link.endpoint.servers) == 1:
            # It may have been restarted, and remember no host.
            self._steady_s = None
        self._now.set()

    @property
    def is_known(self) -> bool:
        """Return whether the servers certainly still have a heartbeat of this host."""
        return self._heard_s is not None and passed_s() - self._heard_s < self.pace.ttl_s

    @property
    def is_steady(self) -> bool:
        """Return whether all heartbeats arrived for as long as the servers keep one."""
        return (
            self.is_known
            and self._steady_s is not None
            and passed_s() - self._steady_s >= self.pace.ttl_s
        )

    async def beat(self) -> bool:
        """Send one heartbeat. Returns whether it arrived."""
        # From before it was sent: the servers keep it at least that long.
        sent_s = passed_s()
        try:
            client = await self._link.client()
            data, key = json_text.dumps_line(self._saying().raw), beat_key(self._name)
            _, was_lost = await with_stream(
                self._link,
                BEATS,
                lambda: api_requests.replace(client, key, data, timeout_s=_TRY_S),
            )
            if was_lost:
                # The heartbeats of all other hosts are gone as well.
                self._steady_s = None
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
        """Send heartbeats forever."""
        while True:
            self._now = anyio.Event()
            with anyio.move_on_after(self.pace.beat_s):
                await self._now.wait()
            await self.beat()

    async def heard(self) -> None:
        """Wait until the next one arrives."""
        await self._was_heard.wait()

    async def stop(self) -> None:
        """Make the servers forget it: this host ends on purpose."""
        with suppress(NoAnswer, ApiError, BullpenError):
            client = await self._link.client()
            await api_requests.replace(client, beat_key(self._name), b"", timeout_s=_TRY_S)
