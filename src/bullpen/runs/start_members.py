"""Starts several members at the same time: some programs take long to become ready.

If the team is watched, members that wait for room do not delay the others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup

from bullpen.agents.supervisor.admission import ROOM_S, RoomWait, WaitsForRoom
from bullpen.errors import BullpenError

T = TypeVar("T")

WATCHED_ROOM_S = 12 * 3600.0
"""How long a member of a watched team may wait for room."""


@dataclass(frozen=True, slots=True)
class MemberStarts:
    """How members are started. Without `late`, a start ends when all are ready."""

    # The task group for members that wait for room.
    late: TaskGroup | None = None
    tell: Callable[[str], None] = lambda line: None

    async def together(
        self, starts: Mapping[str, Callable[[RoomWait], Awaitable[T]]]
    ) -> tuple[list[T], list[BullpenError]]:
        """Start members by name. Returns the results of those that need not wait for room."""
        started: dict[str, T] = {}
        errors: list[BullpenError] = []
        settled = {name: anyio.Event() for name in starts}
        waiting: set[str] = set()

        def waits(event: WaitsForRoom) -> None:
            self.tell(str(event))
            if self.late is not None and event.agent in settled:
                waiting.add(event.agent)
                settled[event.agent].set()

        room = RoomWait(ROOM_S if self.late is None else WATCHED_ROOM_S, waits)

        async def start_one(name: str, start: Callable[[RoomWait], Awaitable[T]]) -> None:
            try:
                started[name] = await start(room)
            except BullpenError as error:
                if name in waiting:
                    self.tell(f"{name} was not started: {error}")
                else:
                    errors.append(error)
            finally:
                settled[name].set()

        async with nullcontext(self.late) if self.late else anyio.create_task_group() as group:
            for name, begin in starts.items():
                group.start_soon(start_one, name, begin)
            for event in settled.values():
                await event.wait()
        return [started[name] for name in starts if name in started], errors
