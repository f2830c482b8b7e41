"""The heartbeat of one agent: sent at each change and at regular intervals."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import anyio

from bullpen.agents.runner.desk import RunnerDesk
from bullpen.errors import BullpenError, Conflict, NotFound, Refused, Unavailable
from bullpen.protocol.agent import ProcessRecord
from bullpen.protocol.clock import Clock
from bullpen.protocol.presence import Presence
from bullpen.team.agents.rules import replaced

UNKNOWN_TOKEN = "unknown_token"  # noqa: S105 (a reason)
"""Why a host refuses an agent that may no longer act: it was given up or started again."""


class Heartbeat:
    """The heartbeats of one launch."""

    def __init__(
        self,
        desk: RunnerDesk,
        *,
        place: ProcessRecord,
        clock: Clock,
        pace: tuple[float, float],
    ) -> None:
        self._desk = desk
        self._place = place
        self._clock = clock
        self._every_s, self._ttl_s = pace

    async def go_on(self, *also: Callable[[], Awaitable[None]]) -> None:
        """Send heartbeats forever, and call `also` with each. Raises NotFound or Conflict."""
        while True:
            changed = self._desk.activity.next_change()
            try:
                await self.beat()
                for each in also:
                    await each()
            except (NotFound, Conflict):
                raise
            except BullpenError as error:
                if isinstance(error, Refused) and error.reason == UNKNOWN_TOKEN:
                    raise Conflict(
                        error.message, remedy="Nothing to do: this launch ends."
                    ) from None
                self._desk.trouble(error)
            with anyio.move_on_after(self._every_s):
                await changed.wait()
                # Changes come in bursts; one heartbeat covers them.
                await anyio.sleep(0.1)

    async def beat(self) -> None:
        """Send one heartbeat. If the store cannot take it, nothing else stops."""
        activity, place = self._desk.activity, self._place
        used = self._desk.spending.total
        presence = Presence.new(
            agent=self._desk.agent,
            state=activity.state,
            since_ms=activity.since_ms,
            beat_ms=self._clock(),
            ttl_ms=round(self._ttl_s * 1000),
            detail=activity.detail,
            host=place.host,
            pid=place.pid,
            start=place.start,
            nonce=self._desk.nonce,
            tool=activity.tool,
            actions=activity.actions or None,
            usage=None if used is None else used.raw,
            context=activity.context,
            model=activity.model,
        )
        try:
            await self._desk.team.agents.beat(presence)
        except Unavailable as error:
            self._desk.trouble(error)


class RosterEntry:
    """Checks that an agent is still in its team; nobody sends a message about that."""

    def __init__(self, desk: RunnerDesk, *, look_s: float) -> None:
        self._desk = desk
        self._look_s = look_s
        self._looked = -math.inf
        self._missed = False

    async def check(self) -> None:
        """Look now and then. Raises Conflict if this launch was removed or replaced.

        Another program may leave an entry out for a moment, so it is looked for twice.
        """
        now = anyio.current_time()
        if now - self._looked < self._look_s:
            return
        self._looked = now
        desk = self._desk
        why = replaced(await desk.team.agents.config(), desk.agent, desk.nonce)
        if why is not None and self._missed:
            raise Conflict(why, remedy="Do nothing: this process exits.")
        self._missed = why is not None
