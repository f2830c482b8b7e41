"""Takes spawn requests from the queue and starts the agents here."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio

from bullpen.agents.supervisor.machines.host_records import (
    HostBeat,
    HostRecord,
    HostSpawn,
    fits,
    has_room,
)
from bullpen.app.app import App
from bullpen.errors import BullpenError, Conflict, NotFound
from bullpen.fleet.host.launches import HostLaunch, Launches
from bullpen.fleet.host.spawn_queue import QueuedSpawn, SpawnQueue
from bullpen.store.nats.client.api_requests import ApiError, NoAnswer
from bullpen.store.nats.client.connection import NatsConnection

_log = logging.getLogger(__name__)

_PROGRESS_EVERY_S = 15.0


class Starting:
    """Starts agents that ask for a host like this one, as long as there is room."""

    def __init__(
        self,
        link: NatsConnection,
        app: App,
        launches: Launches,
        *,
        itself: Callable[[], tuple[HostRecord, HostBeat]],
        join: Callable[[str], Awaitable[None]],
        tell: Callable[[str], None],
    ) -> None:
        self._queue = SpawnQueue(link)
        self._app = app
        self._launches = launches
        self._itself = itself
        self._join = join
        self._tell = tell
        self._work = anyio.Event()
        link.on_reconnect.append(self.hurry)

    def hurry(self) -> None:
        """Check the queue as soon as possible."""
        self._work.set()

    async def go_on(self, every_s: float) -> None:
        """Start agents forever."""
        async with anyio.create_task_group() as starts:
            while True:
                self._work = anyio.Event()
                try:
                    await self._take_all(starts.start_soon)
                except (BullpenError, NoAnswer, ApiError) as error:
                    _log.info("cannot read the spawn queue: %s", error)
                with anyio.move_on_after(every_s):
                    await self._work.wait()

    async def _take_all(self, start: Callable[..., object]) -> None:
        for pool in await self._queue.pools():
            asked = await self._queue.peek(pool)
            if asked is None or not fits(self._itself()[0].labels, asked.labels):
                continue
            while has_room(*self._itself()):
                taken = await self._queue.take(pool)
                if taken is None:
                    break
                # Immediately, so that no other request is taken for the same room.
                self._launches.expect(taken.request.nonce)
                start(self._start, taken)

    async def _start(self, taken: QueuedSpawn) -> None:
        """Start an agent, and tell the queue the result."""
        launch: HostLaunch | None = None
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._hold, taken)
                launch = await self._bring_up(taken.request)
                group.cancel_scope.cancel()
            waits = launch is None and await self._still_waits(taken.request)
            with suppress(NoAnswer):
                await (taken.give_back() if waits else taken.done())
        finally:
            self._launches.settle(taken.request.nonce, launch)

    async def _bring_up(self, asked: HostSpawn) -> HostLaunch | None:
        try:
            await self._join(asked.team)
            supervisor = self._app.supervisor(asked.team)
            started = await supervisor.starter.take(asked.agent, asked.nonce, by=asked.by)
        except (NotFound, Conflict):
            # The request was withdrawn, or another host was faster.
            return None
        except BullpenError as error:
            self._tell(f"{asked.agent} of team {asked.team}: {error.message}")
            return None
        self._tell(f"Started {asked.agent} of team {asked.team}.")
        if started.place is None:
            return None
        return HostLaunch(asked.team, asked.agent, asked.nonce, started.place)

    async def _still_waits(self, asked: HostSpawn) -> bool:
        """Return whether an agent is unchanged, for example because the servers did not answer."""
        agents = self._app.teams.open(asked.team).agents
        try:
            await agents.waiting(asked.agent, nonce=asked.nonce)
        except (NotFound, Conflict):
            return False
        except BullpenError:
            return True
        return True

    async def _hold(self, taken: QueuedSpawn) -> None:
        """Keep a request from being given to others while its agent is being started."""
        while True:
            await anyio.sleep(_PROGRESS_EVERY_S)
            with suppress(NoAnswer):
                await taken.still_at_it()
