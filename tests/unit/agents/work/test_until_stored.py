"""What the store could not do is tried again, for as long as the store may be away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from bullpen.agents.work.until_stored import StoreAway, stored, until_stored
from bullpen.errors import Unavailable
from support.crews import simulate


def failing(*waits_s: float) -> Callable[[], Awaitable[str]]:
    """What fails once for each of these, after so many seconds, and then succeeds."""
    left = list(waits_s)

    async def act() -> str:
        if left:
            await anyio.sleep(left.pop(0))
            raise Unavailable("The store does not answer.", remedy="Wait.")
        return "stored"

    return act


async def tried(act: Callable[[], Awaitable[str]]) -> str:
    return await until_stored(act, tell=lambda _: None, within_s=600)


def test_a_store_may_be_away_for_some_minutes_and_no_longer() -> None:
    assert simulate(lambda: tried(failing(*[5.0] * 20))) == "stored"
    with pytest.raises(Unavailable):
        simulate(lambda: tried(failing(*[5.0] * 60)))


def test_an_attempt_in_which_the_machine_slept_is_not_the_last() -> None:
    assert simulate(lambda: tried(failing(28_800, 28_800))) == "stored"


def test_who_gives_up_on_the_store_says_that_it_was_the_store() -> None:
    with pytest.raises(StoreAway, match="does not answer") as raised:
        simulate(lambda: stored(failing(*[5.0] * 60)))
    assert raised.value.remedy == "Wait."
