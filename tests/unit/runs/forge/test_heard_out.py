"""What people say in one breath goes back as one round of work, whatever was read first."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

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
