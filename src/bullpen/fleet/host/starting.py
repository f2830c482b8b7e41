"""Taking requests for agents out of the queue, and starting them here."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio

from bullpen.agents.hosts.records import HostBeat, HostRecord, SpawnRequest, fits, has_room
from bullpen.errors import BullpenError, Conflict, NotFound
from bullpen.fleet.host.launches import Launch, Launches
from bullpen.fleet.host.queue import SpawnQueue, Taken
from bullpen.office import Office
from bullpen.store.nats.connection import Connection
from bullpen.store.nats.wire import ApiError, NoAnswer

_log = logging.getLogger(__name__)

_PROGRESS_EVERY_S = 15.0


class Starting:
    """Starts agents that ask for a machine like this one, as long as there is room."""

    def __init__(
        self,
        link: Connection,
        office: Office,
        launches: Launches,
        *,
        itself: Callable[[], tuple[HostRecord, HostBeat]],
        join: Callable[[str], Awaitable[None]],
        tell: Callable[[str], None],
    ) -> None:
        self._queue = SpawnQueue(link)
        self._office = office
        self._launches = launches
        self._itself = itself
        self._join = join
        self._tell = tell
        self._work = anyio.Event()
        link.on_reconnect.append(self.hurry)

    def hurry(self) -> None:
        """Look at the queue as soon as possible."""
        self._work.set()

    async def go_on(self, every_s: float) -> None:
        """Start agents for ever."""
        async with anyio.create_task_group() as starts:
            while True:
                self._work = anyio.Event()
                try:
                    await self._take_all(starts.start_soon)
                except (BullpenError, NoAnswer, ApiError) as error:
                    _log.info("the queue of spawns cannot be read: %s", error)
                with anyio.move_on_after(every_s):
                    await self._work.wait()

    async def _take_all(self, start: Callable[..., object]) -> None:
        for pool in await self._queue.pools():
            asked = await self._queue.peek(pool)
            if asked is None or not fits(self._itself()[0].labels, asked.labels):
                continue
            while has_room(*self._itself()):
                try:
                    taken = await self._queue.take(pool)
                except (NoAnswer, ApiError):
                    self._queue.forget(pool)
                    raise
                if taken is None:
                    break
                # At once, so that no other one is taken for the same room.
                self._launches.expect(taken.request.nonce)
                start(self._start, taken)

    async def _start(self, taken: Taken) -> None:
        """Start an agent; whatever comes of it, the queue is told."""
        launch: Launch | None = None
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

    async def _bring_up(self, asked: SpawnRequest) -> Launch | None:
        try:
            await self._join(asked.team)
            supervisor = self._office.supervisor(asked.team)
            started = await supervisor.take(asked.agent, asked.nonce, by=asked.by)
        except (NotFound, Conflict):
            # Whoever asked has given up, or another host was faster.
            return None
        except BullpenError as error:
            self._tell(f"{asked.agent} of team {asked.team}: {error.message}")
            return None
        self._tell(f"Started {asked.agent} of team {asked.team}.")
        if started.place is None:
            return None
        return Launch(asked.team, asked.agent, asked.nonce, started.place)

    async def _still_waits(self, asked: SpawnRequest) -> bool:
        """Whether an agent is as it was before: the servers did not answer, for example."""
        agents = self._office.teams.open(asked.team).agents
        try:
            await agents.waiting(asked.agent, nonce=asked.nonce)
        except (NotFound, Conflict):
            return False
        except BullpenError:
            return True
        return True

    async def _hold(self, taken: Taken) -> None:
        """Keep a request from being given to others while its agent is being started."""
        while True:
            await anyio.sleep(_PROGRESS_EVERY_S)
            with suppress(NoAnswer):
                await taken.still_at_it()
