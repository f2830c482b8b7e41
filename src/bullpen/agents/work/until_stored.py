"""Repeats what the store could not do."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from bullpen.errors import Refused, Unavailable

T = TypeVar("T")


class StoreAway(Unavailable):
    """The store was away for so long that who needed it gave up: nothing else went wrong."""


STORE_S = 60.0
"""For how long a store may be away before who needs it fails."""

_PAUSE_S = 0.2
_PAUSE_MAX_S = 10.0
_ATTEMPT_MAX_S = 60.0


async def until_stored(
    act: Callable[[], Awaitable[T]],
    *,
    tell: Callable[[Unavailable], object],
    within_s: float = math.inf,
    was_done: Callable[[], Awaitable[T | None]] | None = None,
) -> T:
    """Do `act` until the store takes it, with growing pauses. Each failure is told.

    A store that fails may have stored the act all the same, so `act` must be one that changes
    nothing the second time, or is refused then: `was_done` returns the result if it was done.

    Raises Unavailable if the store did not take it within so many seconds. Of one attempt at most a
    minute counts: a process that was stopped meanwhile, or a machine that slept, has not tried.
    """
    left_s, pause_s, failed = within_s, _PAUSE_S, False
    while True:
        begun = anyio.current_time()
        try:
            return await act()
        except Unavailable as error:
            failed = True
            tell(error)
            left_s -= min(anyio.current_time() - begun, _ATTEMPT_MAX_S) + pause_s
            if left_s < 0:
                raise
        except Refused:
            # The first attempt may be why the second is refused.
            if not failed or was_done is None or (found := await was_done()) is None:
                raise
            return found
        await anyio.sleep(pause_s)
        pause_s = min(pause_s * 2, _PAUSE_MAX_S)


async def stored(act: Callable[[], Awaitable[T]]) -> T:
    """Do `act`, which may be done twice, for some seconds while the store is away.

    Raises StoreAway.
    """
    try:
        return await until_stored(act, tell=lambda _: None, within_s=STORE_S)
    except Unavailable as error:
        raise StoreAway(error.message, remedy=error.remedy) from error
