"""Find out whether an agent has to end, and record its end, whatever the store does meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from bullpen.agents.runner.control import Ended
from bullpen.agents.runner.desk import RunnerDesk
from bullpen.agents.work.until_stored import until_stored
from bullpen.errors import BullpenError, NotFound, Unavailable
from bullpen.team.agents.operations import Ending
from bullpen.team.agents.rules import replaced

T = TypeVar("T")

END_S = 45.0
"""How long an agent that ends tries to record that, and waits for what it started."""


async def end_if_gone(desk: RunnerDesk, *, again_s: float) -> bool:
    """Stop an agent that did not find its team, or its place in it, unless both are there.

    Another program can leave out a file or an entry for a moment, so a second look decides, some
    seconds after the first. What cannot be read is not gone. Returns whether it is stopped.
    """
    if await _gone(desk) is None:
        return False
    await anyio.sleep(again_s)
    ended = await _gone(desk)
    if ended is not None:
        desk.control.stop(ended.end, ended.cause or "")
    return ended is not None


async def unless_gone(desk: RunnerDesk, act: Callable[[], Awaitable[T]], *, again_s: float) -> T:
    """Do something. Raises Unavailable if what it did not find is there, or may be."""
    try:
        return await act()
    except NotFound as error:
        if await end_if_gone(desk, again_s=again_s):
            raise
        raise Unavailable(error.message, remedy=error.remedy) from None


async def _gone(desk: RunnerDesk) -> Ended | None:
    try:
        config = await desk.team.agents.config()
    except NotFound:
        return Ended("stopped", "the team was deleted")
    except BullpenError:
        return None
    why = replaced(config, desk.agent, desk.nonce)
    return None if why is None else Ended("lost", why)


async def record_end(
    desk: RunnerDesk, ended: Ended, *, before: Callable[[], Awaitable[None]]
) -> Ended:
    """Record how this agent ended, after `before`. Returns what the team's record says.

    Raises Unavailable if the store was away all the time.
    """

    async def act() -> Ending | None:
        await before()
        return await desk.team.agents.end(
            desk.agent,
            ended.end,
            by=desk.agent,
            nonce=desk.nonce,
            cause=ended.cause,
            reached=ended.reached,
            failure=ended.failure,
        )

    ending = await until_stored(act, tell=desk.trouble, within_s=END_S)
    if ending is not None and ending.agent.end is not None:
        # The member that stopped it has already recorded how it ended.
        ended = Ended(ending.agent.end, ending.agent.cause)
    desk.enter("failed" if ended.end in ("failed", "lost") else "stopped", ended.cause)
    return ended
