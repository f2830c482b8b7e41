"""The door of the host process: local agents come in, each as whom its token says."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from bullpen.errors import Refused
from bullpen.store.base import Store, StoreLimits
from bullpen.store.clock import Clock, now_ms
from bullpen.store.hosted.identities import Identify, Identity
from bullpen.store.hosted.outcomes import Outcomes
from bullpen.store.hosted.place import PrivatePlace, is_own_process
from bullpen.store.hosted.room import Room
from bullpen.store.hosted.visit import Asked, House, Visit

LEASE_S = 2.0
_ROOMS_MAX = 256
_READ_AHEAD = 1024 * 1024


class HostDoor:
    """Lets local processes use a store from `open` to `aclose`. The store stays its owner's."""

    def __init__(
        self,
        store: Store,
        path: str,
        identities: Identify,
        *,
        limits: StoreLimits | None = None,
        lease_s: float = LEASE_S,
        clock: Clock = now_ms,
        asked: Asked | None = None,
    ) -> None:
        self._place = PrivatePlace(path)
        self._limits, self._lease_s, self._clock = limits or StoreLimits(), lease_s, clock
        self._rooms: OrderedDict[str, Room] = OrderedDict()
        self._house = House(
            store=store,
            identities=identities,
            outcomes=Outcomes(),
            room=self._room,
            leave=self._leave,
            asked=asked or _nothing_else,
        )
        self._listening: asyncio.Server | None = None
        self._visits: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def open(self) -> None:
        """Listen.

        Raises:
            Conflict: another host process listens there.
            Refused: others than this user could reach the socket (not_private).
        """
        listening = self._place.open()
        self._listening = await asyncio.start_unix_server(
            self._visited, sock=listening, limit=_READ_AHEAD
        )

    async def aclose(self) -> None:
        """Let nobody in any more. Calls that change something are carried out first."""
        if self._listening is not None:
            self._listening.close()
        for visit in list(self._visits):
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)
        await self._house.outcomes.aclose()
        self._place.close()
        # Connections are closed one step of the loop after they are told to.
        await asyncio.sleep(0)

    def _room(self, team: str) -> Room:
        room = self._rooms.get(team)
        if room is None:
            room = self._rooms[team] = Room(
                self._house.store,
                team,
                lease_s=self._lease_s,
                wait_s=self._limits.lock_wait_s,
                clock=self._clock,
            )
        self._rooms.move_to_end(team)
        if len(self._rooms) > _ROOMS_MAX:
            oldest = next(iter(self._rooms))
            if self._rooms[oldest].idle:
                del self._rooms[oldest]
        return room

    def _leave(self, team: str) -> None:
        """Know nothing of a team any more: it is gone, or was never there."""
        room = self._rooms.get(team)
        if room is not None:
            room.forget()
            if room.idle:
                del self._rooms[team]

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._visits.add(task)
            task.add_done_callback(self._visits.discard)
        with suppress(asyncio.CancelledError):
            if is_own_process(writer.get_extra_info("socket")):
                await _quietly(Visit(self._house, reader, writer).run())
        if writer.transport.get_write_buffer_size():
            # It does not take what it was sent, and would keep the connection open.
            writer.transport.abort()
        writer.close()


async def _quietly(visit: Awaitable[None]) -> None:
    """A visitor that is gone, or sends what is no call, is no trouble of the host."""
    with suppress(OSError, EOFError, ValueError, TimeoutError):
        await visit


async def _nothing_else(who: Identity, what: str, args: dict[str, Any]) -> Any:
    raise Refused(f"This host cannot be asked for {what!r}.", reason="unknown_question")
