"""Keeps logs up to date from what the server repeats, with reads for gaps and a sweep.

The server repeats every stored message once to those who listen, and never again. Each names the
message before it, so a lost one is noticed with the next. For the last one there is a sweep.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from nats import errors as nats_errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from bullpen.errors import BullpenError
from bullpen.store.nats.client import api_requests
from bullpen.store.nats.client.api_requests import NoAnswer
from bullpen.store.nats.client.connection import NatsConnection
from bullpen.store.nats.client.mux import listen
from bullpen.store.nats.log.log import Gone, TeamLog

_log = logging.getLogger(__name__)

_SWEEP_S = 60.0
_HEADS_AT_ONCE = 1000
_AGAIN_S = 0.5


class NatsWatch:
    """Keeps the watched logs up to date, over one connection."""

    def __init__(self, link: NatsConnection, *, sweep_s: float = _SWEEP_S) -> None:
        self._link = link
        self._sweep_s = sweep_s
        self._watchers: Counter[TeamLog] = Counter()
        self._subscriptions: dict[TeamLog, Subscription] = {}
        self._heard_on: dict[TeamLog, Client] = {}
        self._subscribing = asyncio.Lock()
        self._behind: set[TeamLog] = set()
        self._wanted = asyncio.Event()
        self._listen_again = False
        self._task: asyncio.Task[None] | None = None
        link.on_reconnect.append(self._reconnected)

    def _reconnected(self) -> None:
        self._listen_again = True
        self._wanted.set()

    @asynccontextmanager
    async def of(self, log: TeamLog) -> AsyncIterator[None]:
        """Follow a log as long as this is open. Raises Unavailable, Gone."""
        self._watchers[log] += 1
        try:
            await self._subscribe(log)
            # What was stored before the server knew of the subscription is not repeated.
            await log.confirm()
            yield
        finally:
            self._watchers[log] -= 1
            if not self._watchers[log]:
                del self._watchers[log]
                await self._unsubscribe(log)

    async def _subscribe(self, log: TeamLog) -> None:
        """Listen to a log over the current connection, unless it already does."""
        async with self._subscribing:
            client = await self._link.client()
            if self._heard_on.get(log) is client:
                return

            def take(message: Msg) -> None:
                with suppress(NoAnswer, BullpenError):
                    if log.news(api_requests.row_of(message)):
                        return
                self._behind.add(log)
                self._wanted.set()

            self._subscriptions[log] = await listen(client, log.address.news, take)
            self._heard_on[log] = client
            log.is_followed = True
            if self._task is None:
                self._task = asyncio.create_task(self._catch_up())
        with suppress(nats_errors.Error, TimeoutError):
            await client.flush(timeout=2)

    async def _unsubscribe(self, log: TeamLog) -> None:
        subscription = self._subscriptions.pop(log, None)
        self._heard_on.pop(log, None)
        log.is_followed = False
        self._behind.discard(log)
        if subscription is not None:
            with suppress(nats_errors.Error, OSError):
                await subscription.unsubscribe()

    async def _catch_up(self) -> None:
        """Read what is missing, and check all logs from time to time."""
        next_sweep = time.monotonic() + self._sweep_s * random.uniform(0.5, 1.0)
        while True:
            with suppress(TimeoutError):
                # `wait_for` sometimes takes a cancellation for an answer, and continues.
                async with asyncio.timeout(max(0.0, next_sweep - time.monotonic())):
                    await self._wanted.wait()
            self._wanted.clear()
            if self._listen_again or time.monotonic() >= next_sweep:
                next_sweep = time.monotonic() + self._sweep_s * random.uniform(0.8, 1.2)
                await self._sweep()
            behind, self._behind = self._behind, set()
            if behind:
                await asyncio.gather(*map(self._read_on, behind))

    async def _read_on(self, log: TeamLog) -> None:
        try:
            await log.confirm()
        except Gone:
            return
        except BullpenError as error:
            _log.info("cannot follow team %s: %s", log.address.team, error)
            await asyncio.sleep(_AGAIN_S)
            if log in self._subscriptions:
                self._behind.add(log)
                self._wanted.set()

    async def _sweep(self) -> None:
        """Find the logs that continued unnoticed."""
        again, self._listen_again = self._listen_again, False
        try:
            for log in list(self._subscriptions):
                await self._subscribe(log)
        except (BullpenError, nats_errors.Error) as error:
            _log.info("cannot listen: %s", error)
            self._behind |= set(self._subscriptions)
            self._reconnected()
            return
        if again:
            # A replica may not have yet what was stored before its leader knew of us.
            self._behind |= set(self._subscriptions)
            return
        streams: dict[str, list[TeamLog]] = {}
        for log in self._subscriptions:
            streams.setdefault(log.address.stream, []).append(log)
        for stream, logs in streams.items():
            for start in range(0, len(logs), _HEADS_AT_ONCE):
                await self._compare(stream, logs[start : start + _HEADS_AT_ONCE])

    async def _compare(self, stream: str, logs: list[TeamLog]) -> None:
        try:
            reader = await self._link.reader()
            subjects = [log.address.log for log in logs]
            rows = await reader.last_rows(stream, subjects, timeout_s=5.0)
        except (NoAnswer, BullpenError) as error:
            _log.info("cannot check the logs of %s: %s", stream, error)
            self._behind |= set(logs)
            return
        heads = {row.subject: row.seq for row in rows}
        self._behind |= {log for log in logs if heads.get(log.address.log, 0) != log.head}

    async def aclose(self) -> None:
        """Stop following."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        for log in list(self._subscriptions):
            await self._unsubscribe(log)
