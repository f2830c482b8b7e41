"""A team of 20 that works on and on: nothing grows but its history, and nothing is lost.

So few turns say nothing about memory; the whole soak is a command: see the docstring of `soak`.
"""

from __future__ import annotations

import pytest

from bullpen.team.budget import account_rules

from .soak import AGENTS, soak

_TURNS = 150


def test_nothing_grows_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    # So that accounts are full after a few turns.
    monkeypatch.setattr(account_rules, "TASKS_KEPT", 1)
    world = soak(_TURNS, every=15)
    assert not world.wrong
    assert world.faults > 5
    first, last = world.samples[len(world.samples) // 2], world.samples[-1]
    assert last.descriptors <= first.descriptors + AGENTS
    assert last.files == AGENTS
    assert last.processes == first.processes
    # What a commit writes does not grow with the number of tasks that were done.
    assert last.member_bytes <= 1.25 * first.member_bytes
    # A sample has only some hundred events, so the largest of each half are compared. The first
    # turns begin at the same time, before anybody has an account.
    settled = [row for row in world.samples if row.turns > _TURNS / 3]
    half = len(settled) // 2
    earlier, later = settled[:half], settled[half:]
    assert max(row.event_bytes for row in later) <= 1.25 * max(row.event_bytes for row in earlier)
