"""Teams in simulated time: every seed is a history with faults, and none may break a promise.

BULLPEN_SIMULATIONS=100000 python -m pytest tests/chaos/simulation -k promise    # many
BULLPEN_SIMULATION_SEED=4711 python -m pytest tests/chaos/simulation -k promise -s    # one, told
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from .faults import KINDS, Fault, Kind
from .play import play_all, play_each
from .seeds import FOUND
from .world import Setup, history, setup_of

pytestmark = pytest.mark.no_loss

_TESTS = Path(__file__).parents[2]
_FIXED, _DRAWN = 80, 40
"""Histories in the gate: those from seed 0 on, and others every day."""


def test_no_history_breaks_a_promise() -> None:
    one = os.environ.get("BULLPEN_SIMULATION_SEED")
    if one is not None:
        world = history(int(one))
        print(f"\n{world.story()}\nseed {one}: {world.setup}")
        assert not world.wrong
        return
    many = int(os.environ.get("BULLPEN_SIMULATIONS", _FIXED))
    first = int(os.environ.get("BULLPEN_SIMULATION_FIRST", "0"))
    workers = 1 if many <= _FIXED else os.cpu_count() or 1
    begun = time.monotonic()
    broken = [each for _, found in play_all(first, many, workers=workers) for each in found]
    rate = many / (time.monotonic() - begun) * 60
    print(f"seeds {first} to {first + many - 1}: {rate:.0f} histories a minute")
    assert not broken, "\n".join(map(str, broken[:20]))


def drawn_on(day: date) -> range:
    """The seeds of a day, far from the fixed ones; no two days have one in common."""
    first = day.toordinal() * _DRAWN
    return range(first, first + _DRAWN)


@pytest.mark.skipif(
    bool({"BULLPEN_SIMULATION_SEED", "BULLPEN_SIMULATIONS"} & os.environ.keys()),
    reason="other histories are asked for",
)
def test_no_history_of_the_day_breaks_a_promise() -> None:
    seeds = drawn_on(datetime.now(UTC).date())
    told = f"seeds {seeds[0]} to {seeds[-1]}"
    print(told)
    broken = list(play_each(seeds))
    assert not broken, "\n".join([told, *map(str, broken[:20])])


@pytest.mark.parametrize(("seed", "kinds", "what"), FOUND)
def test_a_history_that_broke_a_promise_breaks_none_now(
    seed: int, kinds: tuple[Kind, ...], what: str
) -> None:
    found = list(play_each([seed], kinds))
    assert not found, f"{what}: {found[0]}"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_fault_happens(kind: Kind) -> None:
    def happened(seed: int) -> bool:
        return any(
            what.startswith(f"! {kind}(")
            for _, _, what in history(seed, setup_of(seed, (kind,))).log
        )

    assert any(happened(seed) for seed in range(20))


def test_one_seed_is_one_history() -> None:
    for seed in range(5, 10):
        assert history(seed).digest() == history(seed).digest()
    assert history(5).digest() != history(6).digest()


def test_a_history_does_not_depend_on_its_interpreter() -> None:
    script = (
        "from chaos.simulation.world import history\n"
        "print(*(history(seed).digest() for seed in range(5, 10)))"
    )
    here = " ".join(history(seed).digest() for seed in range(5, 10))
    for hash_seed in ("1", "2"):
        env = {**os.environ, "PYTHONPATH": str(_TESTS), "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script],
            env=env,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        assert done.stdout.strip() == here


def test_an_agent_that_got_ready_while_its_starter_slept_is_kept() -> None:
    slept = 0
    for at in range(10, 20):
        log = [what for _, _, what in history(1, Setup(1, 1, False, (Fault(at, "stop", 600),))).log]
        fault = log.index(f"! stop(600) at await {at} in watch") if _in_watch(log, at) else 0
        if "agent.placed" in log[:fault]:
            slept += 1
            assert "agent.withdraw" not in log
    assert slept


def _in_watch(log: list[str], at: int) -> bool:
    return f"! stop(600) at await {at} in watch" in log


def test_a_history_without_faults_does_everything() -> None:
    for led in (False, True):
        world = history(1, Setup(3, 3, led, ()))
        assert not world.wrong
        assert world.outcome is not None
        assert world.outcome.status == "done"
        assert world.outcome.tasks == {"completed": 3}
        assert not world.broke
