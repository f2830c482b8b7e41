"""A team of 20 that works on and on: nothing grows but its history, and nothing is lost.

So few turns say nothing about memory; the whole soak is a command: see the docstring of `soak`.
"""

from __future__ import annotations

import pytest

from bullpen.team.budget import account_rules

from .soak import AGENTS, Sample, soak

pytestmark = pytest.mark.no_loss

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
    # One sample may have few events, and among them some long ones, so whole halves are compared.
    # The first turns begin at the same time, before anybody has an account.
    settled = [row for row in world.samples if row.turns > _TURNS / 4]
    middle = settled[len(settled) // 2]
    assert _mean_event(middle, settled[-1]) <= 1.25 * _mean_event(settled[0], middle)


def _mean_event(since: Sample, until: Sample) -> float:
    """The mean length of the events between two samples."""
    return 1024 * (until.log_kb - since.log_kb) / (until.events - since.events)
