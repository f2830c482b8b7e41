"""Turns at the log of a team: one after another, in the order in which they came."""

from __future__ import annotations

import asyncio

import pytest

from bullpen.errors import Unavailable
from bullpen.store.nats.log.turns import Turns


def turns_of(*, wait_s: float = 10.0, ended: list[str] | None = None) -> Turns:
    told = [] if ended is None else ended
    return Turns(wait_s, busy=lambda: Unavailable("busy"), ended=lambda: told.append("ended"))


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Users:
    """Tasks that want the turn, and those that have it or had it."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.got: list[int] = []
        self.leave: dict[int, asyncio.Event] = {}

    def start(self, number: int) -> asyncio.Task[None]:
        self.leave[number] = asyncio.Event()
        return asyncio.create_task(self._use(number))

    async def _use(self, number: int) -> None:
        async with self.turns:
            self.got.append(number)
            await self.leave[number].wait()


async def test_those_who_wait_get_the_turn_in_order_and_nobody_comes_in_between() -> None:
    ended: list[str] = []
    users = Users(turns_of(ended=ended))
    tasks = [users.start(number) for number in range(3)]
    await settled()
    assert users.got == [0] and users.turns.is_taken
    for number in range(3):
        users.leave[number].set()
        # Whoever comes at the moment of the change comes last.
        if number == 0:
            tasks.append(users.start(3))
        await settled()
    users.leave[3].set()
    await asyncio.gather(*tasks)
    assert users.got == [0, 1, 2, 3]
    assert not users.turns.is_taken and len(ended) == 4


async def test_whoever_gives_up_while_it_waits_is_skipped() -> None:
    users = Users(turns_of())
    tasks = [users.start(number) for number in range(3)]
    await settled()
    tasks[1].cancel()
    await settled()
    for number in (0, 2):
        users.leave[number].set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert users.got == [0, 2] and not users.turns.is_taken


async def test_whoever_gives_up_at_the_moment_it_gets_the_turn_passes_it_on() -> None:
    users = Users(turns_of())
    tasks = [users.start(number) for number in range(3)]
    await settled()
    users.leave[0].set()
    # The first one leaves; the second has the turn then, but has not run yet.
    await asyncio.sleep(0)
    assert users.got == [0]
    tasks[1].cancel()
    await settled()
    users.leave[2].set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert users.got == [0, 2] and not users.turns.is_taken


async def test_waiting_too_long_is_refused_and_blocks_nobody() -> None:
    users = Users(turns_of(wait_s=0.0))
    first = users.start(0)
    await settled()
    with pytest.raises(Unavailable, match="busy"):
        await users.start(1)
    users.leave[0].set()
    await first
    assert not users.turns.is_taken
    last = users.start(2)
    users.leave[2].set()
    await last
    assert users.got == [0, 2]
