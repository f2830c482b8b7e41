"""A night in fast motion: a backlog in the evening, merged and checked branches in the morning.

Members of three drivers work unattended through kills, storms of rate limits, hung tools, a full
disk and a reboot. CI plays one small night. The full run, and a night again as in a failure:

    BULLPEN_NIGHT_ROUNDS=5 BULLPEN_NIGHT_TASKS=100 uv run pytest tests/chaos/night
    BULLPEN_NIGHT_SEED=1234 uv run pytest tests/chaos/night
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bullpen.testing.models import MockModels

from .nights import Crew, Night, drawn, small_disk
from .truth import (
    bill,
    check_contents,
    check_green_at_every_step,
    check_nothing_lost,
    check_snapshots,
    events,
    landed_by_part,
)

ROUNDS = int(os.environ.get("BULLPEN_NIGHT_ROUNDS") or 1)
TASKS = int(os.environ.get("BULLPEN_NIGHT_TASKS") or 10)
SEED = int(os.environ.get("BULLPEN_NIGHT_SEED") or 8)
CREW = Crew(scripted=3, native=3, programs=3) if TASKS > 40 else Crew(1, 2, 1, inside=1)
# Some minutes for what takes one: the machine may be busy with other things.
WITHIN_S = 120 + 12 * TASKS

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="it needs /proc"),
    pytest.mark.skipif(shutil.which("git") is None, reason="it needs git"),
]


class Faults:
    """What goes wrong in a night, each at its time: when so many parts have landed."""

    def __init__(
        self, night: Night, mock: MockModels, fill: Callable[[], Callable[[], None]], seed: int
    ) -> None:
        self._night = night
        self._mock = mock
        self._fill = fill
        self._rng = random.Random(seed)
        kinds = ["kill", "storm", "full disk", "kill", "reboot"]
        kinds += [self._rng.choice(kinds) for _ in range(len(night.parts) // 20)]
        self._rng.shuffle(kinds)
        whole = 0.7 * len(night.parts)
        self._left = [(whole * (n + 1) / len(kinds), kind) for n, kind in enumerate(kinds)]
        if seed % 2:
            # In the middle of the start, when some are there and some are not.
            self._left.insert(0, (1, "early reboot"))
        self._early_s = self._rng.uniform(2, 12)
        self._last = time.monotonic()
        self.struck: Counter[str] = Counter()

    def look(self) -> None:
        """Let happen what is due; nothing waits for ever for what comes before it."""
        if not self._left:
            return
        at, kind = self._left[0]
        waited = time.monotonic() - self._last
        landed = self._night.landed()
        if landed == 0 and kind != "early reboot":
            # A start that fails is an error, and no night.
            self._last = time.monotonic()
            return
        if landed < at and waited < (self._early_s if kind == "early reboot" else 30):
            return
        if not self._strike(kind):
            return
        self._left.pop(0)
        self._last = time.monotonic()
        self.struck[kind] += 1
        print(f"{kind} with {self._night.landed()} landed")

    def _strike(self, kind: str) -> bool:
        match kind:
            case "kill":
                return self._night.kill_one(self._rng)
            case "storm":
                self._night.brains.storm(2.0)
            case "full disk":
                free = self._fill()
                time.sleep(2.0)
                free()
            case _:
                self._night.reboot(self._mock)
        return True

    @property
    def over(self) -> bool:
        return not self._left


def played(night: Night, mock: MockModels, faults: Faults | None = None) -> int:
    """Let a night pass; the exit code of `up`."""
    up = night.up(mock)
    deadline = time.monotonic() + WITHIN_S
    while up.poll() is None:
        assert time.monotonic() < deadline, f"It did not end:\n{night.log.read_text()[-3000:]}"
        time.sleep(0.5)
        if faults is not None:
            faults.look()
            up = night.running
    return up.returncode


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_night_ends_by_itself_with_everything_merged_and_a_report_that_is_right(
    tmp_path: Path, number: int
) -> None:
    """Kills, 429s, a hung tool, a full disk, a reboot: it ends, within budget, nothing lost."""
    seed = SEED + number
    parts = drawn(TASKS, seed)
    cap = 400_000 * TASKS
    night = Night(tmp_path, parts, CREW, tokens=cap)
    with small_disk(tmp_path / "disk", 256) as fill, MockModels(night.brains) as mock:
        night.make_repository()
        faults = Faults(night, mock, fill, seed)
        try:
            code = played(night, mock, faults)
            assert faults.over, "it was over too early"
            check_the_morning(night, mock, faults, code, cap)
        finally:
            night.end()


def check_the_morning(night: Night, mock: MockModels, faults: Faults, code: int, cap: int) -> None:
    said = night.log.read_text()
    tasks = night.tasks()
    merged = {n for n, task in tasks.items() if _merge(task).get("state") == "merged"}
    given_up = {
        n: _facts(task)["givenUp"] for n, task in tasks.items() if "givenUp" in _facts(task)
    }
    broken = {part.number for part in night.parts if part.kind == "breaks"}
    assert set(tasks) == {part.number for part in night.parts}, said
    assert set(given_up) == broken, f"{given_up}\n{said}"
    assert merged == set(tasks) - broken, said
    assert all(given_up.values())
    assert code == 2, "one task was given up"
    assert night.agents() == {}

    check_green_at_every_step(night)
    assert set(landed_by_part(night)) == merged
    check_contents(night, [part for part in night.parts if part.number in merged])
    assert night.git("status", "--porcelain") == ""
    check_nothing_lost(night, events(night))
    print(f"{check_snapshots(night)} trees were saved")

    bills = [bill(used) for used in mock.billed]
    assert sum(bills) <= cap
    check_the_report(night, mock, faults, bills, merged)


def check_the_report(
    night: Night, mock: MockModels, faults: Faults, bills: list[int], merged: set[str]
) -> None:
    report = night.summary(mock)
    numbers = {line["id"]: line["subject"].removeprefix("Part ") for line in report["tasks"]}
    lines = {numbers[line["id"]]: line for line in report["tasks"]}
    really = landed_by_part(night)
    assert {n: line["commit"] for n, line in lines.items() if line["commit"]} == really
    assert {n for n, line in lines.items() if line["state"] == "given_up"} == set(lines) - merged
    assert [line["commit"] for line in report["merges"]] == list(really.values())
    # Of a request whose agent was killed before it was answered nobody knows what it cost.
    used = report["used"]["inputTokens"] + report["used"]["outputTokens"]
    reboots = faults.struck["reboot"] + faults.struck["early reboot"]
    killed = faults.struck["kill"] + (1 + CREW.native) * reboots
    # What a request cost whose answer broke off is estimated, and not too low.
    estimates = report["used"].get("estimated", 0)
    assert sum(bills) - killed * max(bills) <= used <= sum(bills) + estimates * max(bills)
    assert sum(len(line["tasks"]) for line in report["members"]) == len(merged)


def _facts(task: dict[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = task["metadata"]["bullpen"]
    return facts


def _merge(task: dict[str, Any]) -> dict[str, Any]:
    return _facts(task).get("merge") or {}
