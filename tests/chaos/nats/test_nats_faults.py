"""Servers and hosts are killed and paused while 64 writers work: nothing lost, nothing twice.

A bounded sample by default. The full run, in rounds that are each a test of their own:

    BULLPEN_CHAOS_FOLDER=/var/tmp/chaos BULLPEN_CHAOS_ROUNDS=5 \
    BULLPEN_CHAOS_ACKNOWLEDGED=20000 BULLPEN_CHAOS_FAULTS=5 BULLPEN_CHAOS_SEED=6 \
        pytest tests/chaos/nats/test_nats_faults.py

Every round that was passed is written to `outcomes.jsonl` in that folder, and passed over when
the same command is given again.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from support.nats_chaos.run import Fault, Outcome, Plan, run, schedule, setting

pytestmark = pytest.mark.no_loss

ROUNDS = setting("ROUNDS", 0)
SEED = setting("SEED", 6)
KINDS: tuple[Fault, ...] = (
    "kill leader",
    "kill follower",
    "kill host",
    "pause server",
    "pause host",
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Kept if the test fails: the diaries and the logs in it say what happened."""
    folder = Path(tempfile.mkdtemp(prefix="bullpen-chaos-"))
    yield folder
    if (folder / "passed").exists():
        shutil.rmtree(folder)


def _endure(folder: Path, plan: Plan) -> Outcome:
    outcome = run(folder, plan)
    assert outcome.violations == (), f"{len(outcome.violations)} violations; see {folder}"
    assert outcome.acknowledged >= plan.acknowledged
    (folder / "passed").touch()
    return outcome


@pytest.mark.skipif(ROUNDS > 0, reason="the full run is asked for")
def test_a_sample_of_faults_loses_nothing_and_repeats_nothing(folder: Path) -> None:
    faults: tuple[Fault, ...] = ("kill leader", "kill host", "pause server")
    _endure(folder, Plan(faults, acknowledged=600, seed=SEED, pause_s=(5.0, 6.0), pace_s=0.1))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_round_of_faults_loses_nothing_and_repeats_nothing(folder: Path, number: int) -> None:
    kept = Path(os.environ.get("BULLPEN_CHAOS_FOLDER", tempfile.gettempdir())) / "outcomes.jsonl"
    kept.parent.mkdir(parents=True, exist_ok=True)
    seed = SEED * 1_000 + number
    passed = kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []
    if any(json.loads(line)["seed"] == seed for line in passed):
        pytest.skip(f"passed before; see {kept}")
    faults = schedule(KINDS, setting("FAULTS", 5), random.Random(seed))
    outcome = _endure(folder, Plan(faults, setting("ACKNOWLEDGED", 20_000), seed))
    with kept.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"seed": seed, "order": faults, **asdict(outcome)}) + "\n")
