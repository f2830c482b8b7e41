"""All servers lose their power at once: nothing that was acknowledged is lost.

With BULLPEN_CHAOS_ROUNDS set, as for the full run of `test_nats_faults`, also that servers which
save later do lose it. BULLPEN_CHAOS_POWER_COMMITS says how much is acknowledged before.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest

from support.nats_chaos.power import Blackout, Loss, disks, why_not
from support.nats_chaos.run import setting

WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")

COMMITS = setting("POWER_COMMITS", 500)
FULL = setting("ROUNDS", 0) > 0


def black_out(nodes: int, sync: str, *, ready_s: float = 60.0) -> Loss:
    with (
        tempfile.TemporaryDirectory(prefix="bullpen-power-") as folder,
        disks(Path(folder), nodes) as made,
    ):
        blackout = Blackout(Path(folder), nodes, sync)
        return asyncio.run(blackout.run(made, commits=COMMITS, ready_s=ready_s))


@pytest.mark.parametrize("nodes", [1, 3])
def test_what_was_acknowledged_is_there_after_all_servers_lost_their_power(nodes: int) -> None:
    loss = black_out(nodes, "always")
    assert loss.acknowledged >= COMMITS
    assert loss.lost == 0


@pytest.mark.slow
@pytest.mark.skipif(not FULL, reason="the full run is not asked for")
@pytest.mark.parametrize("nodes", [1, 3])
def test_servers_that_save_later_lose_what_they_acknowledged(nodes: int) -> None:
    """The test before this one has teeth: with the servers' own default there is a loss."""
    assert black_out(nodes, "2m", ready_s=20.0).lost > 0
