"""Results of calls that change something, so that a repeated call happens once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

KEPT_PER_TEAM = 1_000
TEAMS_MAX = 1_000


class Outcomes:
    """The last calls of every team. A call continues even if its caller disconnects."""

    def __init__(self) -> None:
        self._teams: OrderedDict[str, OrderedDict[Hashable, asyncio.Task[Any]]] = OrderedDict()

    async def of(self, team: str, key: Hashable, call: Callable[[], Awaitable[Any]]) -> Any:
        """Return the result of a call, even if it was made before."""
        calls = self._teams.setdefault(team, OrderedDict())
        self._teams.move_to_end(team)
        task = calls.get(key)
        if task is None:
            task = calls[key] = asyncio.ensure_future(_settled(call))
            self._forget(calls)
        return await asyncio.shield(task)

    async def aclose(self) -> None:
        """Wait for the calls in progress."""
        tasks = [task for calls in self._teams.values() for task in calls.values()]
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget(self, calls: OrderedDict[Hashable, asyncio.Task[Any]]) -> None:
        _drop_oldest(calls, KEPT_PER_TEAM, lambda task: task.done())
        _drop_oldest(
            self._teams, TEAMS_MAX, lambda held: all(task.done() for task in held.values())
        )


def _drop_oldest(kept: OrderedDict[Any, Any], most: int, may_go: Callable[[Any], bool]) -> None:
    if len(kept) > most:
        oldest = next(iter(kept))
        if may_go(kept[oldest]):
            if isinstance(kept[oldest], asyncio.Task) and not kept[oldest].cancelled():
                # Its caller is gone, so nobody will ask for the result.
                kept[oldest].exception()
            del kept[oldest]


async def _settled(call: Callable[[], Awaitable[Any]]) -> Any:
    return await call()
