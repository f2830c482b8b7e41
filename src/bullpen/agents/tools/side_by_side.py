"""Calls of one answer that only read run side by side; everything else waits for its turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Tool

SIDE_BY_SIDE_MAX = 8
"""How many calls run at once."""

# They are about one job, whose output is read once.
_IN_TURN = frozenset(["BashOutput", "KillShell"])

C = TypeVar("C")


class Place:
    """The place of a call among those beside it.

    They are judged one at a time, so that one request waits for an answer at a time. Their results
    are recorded in the order of the calls, by which readers of transcripts know them.
    """

    def __init__(self, judging: anyio.Lock, before: anyio.Event | None, *, last: bool) -> None:
        self.judging = judging
        self.done = anyio.Event()
        self.last = last
        self._before = before

    async def ready(self) -> None:
        """Wait until the calls before this one have ended."""
        if self._before is not None:
            await self._before.wait()


def only_reads(name: str, tools: Sequence[Tool[Desk]]) -> bool:
    """Whether calls of this tool change nothing, so that their order does not matter."""
    return name not in _IN_TURN and any(tool.name == name and tool.kind == "read" for tool in tools)


def batches(calls: Sequence[C], reads: Callable[[C], bool]) -> list[list[C]]:
    """The calls in order: those that only read and follow each other are together."""
    found: list[list[C]] = []
    last_reads = False
    for call in calls:
        if last_reads and reads(call):
            found[-1].append(call)
        else:
            found.append([call])
        last_reads = reads(call)
    return found


async def run_batch(batch: Sequence[C], run: Callable[[C, Place | None], Awaitable[None]]) -> None:
    """Run the calls of a batch, side by side if there are several. They end in their order."""
    if len(batch) == 1:
        await run(batch[0], None)
        return
    limiter, judging = anyio.CapacityLimiter(SIDE_BY_SIDE_MAX), anyio.Lock()

    async def one(call: C, place: Place) -> None:
        async with limiter:
            await run(call, place)
        place.done.set()

    async with anyio.create_task_group() as group:
        before: anyio.Event | None = None
        for number, call in enumerate(batch):
            place = Place(judging, before, last=number == len(batch) - 1)
            before = place.done
            group.start_soon(one, call, place)
