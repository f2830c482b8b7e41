"""Keeps the log of a team short: its events move to the history, a snapshot takes their place.

It runs in a task of its own, so no commit waits for it. Only the snapshot needs the turn: it must
follow the last event. A failure does no harm: the log stays long, and the next commit tries again.
"""

from __future__ import annotations

import asyncio
import logging
import time

from bullpen.errors import Unavailable
from bullpen.protocol import json_text
from bullpen.protocol.format_version import is_newer
from bullpen.store.nats.client import api_requests
from bullpen.store.nats.client.api_requests import ApiError, HeadMoved, NoAnswer
from bullpen.store.nats.client.streams import PAYLOAD_MAX
from bullpen.store.nats.log.history import slices
from bullpen.store.nats.log.log import Gone, TeamLog
from bullpen.store.nats.log.packing import known_format
from bullpen.store.nats.log.retention import HistoryTrim

_log = logging.getLogger(__name__)

_SNAPSHOT_TRIES = 4
_SETTLE_S = 5.0


class LogShortener:
    """Shortens one log when it is long."""

    def __init__(self, log: TeamLog, *, wait_s: float) -> None:
        self._log = log
        self._wait_s = wait_s
        self._trim = HistoryTrim(log.link, log.address, log.history)
        self._task: asyncio.Task[None] | None = None

    def start_if_long(self) -> None:
        """Shorten the log soon, if it is time to. The caller has just added an event."""
        if self._log.tail.is_long and self._task is None:
            self._task = asyncio.create_task(self._run())

    async def settle(self) -> None:
        """Wait until nothing is under way. A process that is about to end lets it finish."""
        if self._task is not None:
            task = self._task
            try:
                await asyncio.wait({task}, timeout=_SETTLE_S)
            finally:
                task.cancel()

    async def _run(self) -> None:
        try:
            await self.shorten()
        except Exception:
            _log.exception("the log of team %s could not be shortened", self._log.address.team)
        finally:
            self._task = None

    async def shorten(self) -> None:
        """Move the events to the history and put a snapshot in their place.

        History comes first: if the process is killed in between, events are in both, and a reader
        counts them by number.
        """
        log, start = self._log, self._log.tail.start
        if not self._may_shorten(start):
            return
        try:
            await self.store_history(time.monotonic() + self._wait_s)
            async with log.turn() as deadline:
                await log.wait_for_others()
                if not self._may_shorten(start):
                    return
                await self._trim.cut(log.kept)
                for _ in range(_SNAPSHOT_TRIES):
                    if await self.put_snapshot(deadline) or not self._may_shorten(start):
                        return
                    await log.wait_for_others()
                log.tail.put_off()
        except (Gone, NoAnswer, ApiError, Unavailable):
            return

    def _may_shorten(self, start: int) -> bool:
        """Return whether it is possible, and no other host has done it or ended the log since."""
        kept = self._log.kept
        # A snapshot of this version would leave out what only a newer one knows.
        is_known = not is_newer(kept.format, known_format(kept.format))
        return is_known and not kept.gone and self._log.tail.start == start

    async def store_history(self, deadline: float) -> None:
        """Store the events so far as history. Meanwhile others may add some."""
        log, tail = self._log, self._log.tail
        last, start = log.kept.seq, tail.start
        while lines := tail.not_in_history:
            first = log.kept.seq - len(lines) + 1
            if first > last:
                return
            part = next(slices(lines))
            stored = await log.history.store(log.kept, first, part, timeout_s=log.try_s(deadline))
            if tail.start != start:
                # Another host has put a snapshot. It knows where its events are.
                return
            tail.in_history += stored

    async def put_snapshot(self, deadline: float) -> bool:
        """Put a snapshot at the head; False if others wrote meanwhile. The caller has the turn.

        It brings along what was written after the history was stored.
        """
        log = self._log
        log.take_heard()
        tail = log.tail.not_in_history
        raw = {"v": 1, "snapshot": log.kept.snapshot(), "tail": [line.decode() for line in tail]}
        data = json_text.dumps_line(raw)
        if len(data) > PAYLOAD_MAX:
            return True
        client = await log.link.client()
        try:
            head = await api_requests.append(
                client,
                log.address.log,
                data,
                expect=log.head,
                rollup=True,
                timeout_s=log.try_s(deadline),
            )
        except HeadMoved as moved:
            await log.read_on(moved.head or None, deadline)
            return False
        log.shortened(head, tail, len(data))
        await self._trim.free(log.kept)
        return True
