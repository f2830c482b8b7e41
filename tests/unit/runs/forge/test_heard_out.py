"""What people say in one breath goes back as one round of work, whatever was read first."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bullpen.runs.forge.looking.looks import _PATIENT_TURNS, Looks, _Shown
from support.forge.memory_forge import MemoryForge
from support.forge.shop import Shop


class Clocked:
    """As much of the looks as knows the time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.wheel = SimpleNamespace(interval_s=60.0)

    def _clock(self) -> float:
        return self.now_s

    def heard_out(self, shown: _Shown) -> bool:
        return Looks._is_heard_out(cast("Any", self), shown)


async def shown_at(updated: str) -> _Shown:
    shop = await Shop.open()
    shop.forge.issue("Add a cart")
    await shop.step()
    forge: MemoryForge = shop.forge
    return _Shown(replace(forge.pulls[await shop.to_pull("1")], updated=updated))


async def test_words_wait_until_every_part_was_read_after_the_last_of_them() -> None:
    looks, shown = Clocked(), await shown_at("10:00")
    shown.updated_s = 0.0
    shown.stamps = {"reviews": ("10:00", 5.0), "comments": ("10:00", 5.0)}
    assert not looks.heard_out(shown)
    shown.stamps["threads"] = "09:59", 5.0
    assert not looks.heard_out(shown)
    # Something else may still be said in that second.
    shown.stamps["threads"] = "10:00", 1.0
    assert not looks.heard_out(shown)
    shown.stamps["threads"] = "10:00", 3.0
    assert looks.heard_out(shown)


async def test_who_never_stops_talking_is_not_waited_for_forever() -> None:
    looks, shown = Clocked(), await shown_at("10:00")
    for turn in range(_PATIENT_TURNS):
        looks.now_s = turn * 60.0
        assert not looks.heard_out(shown)
    looks.now_s = _PATIENT_TURNS * 60.0
    assert looks.heard_out(shown)


@pytest.mark.parametrize("pull_request", ["task", "night"])
async def test_one_pass_hears_what_was_said(pull_request: str) -> None:
    merge = "queue" if pull_request == "night" else "forge"
    shop = await Shop.open(merge=merge, pull_request=pull_request)
    shop.forge.issue("Add a cart")
    await shop.step()
    await (shop.land("1") if pull_request == "night" else shop.hand_in("1"))
    await shop.step(2)
    (number,) = shop.forge.pulls
    shop.forge.note(number, "Please rename this.", path="done-1.txt")
    shop.forge.pulls[number] = replace(shop.forge.pulls[number], updated="10:00:00")
    # As `bullpen forge sync` does: with a worker that knows nothing.
    shop.start()

    async def sleep(seconds: float) -> None:
        shop.now_s += seconds

    shop.worker._sleep = sleep
    await shop.worker.once(shop.told.append)
    tasks = await shop.tasks()
    assert len(tasks) == (2 if pull_request == "night" else 1)
    assert tasks[-1].status == "pending"
