"""The benchmark of the fleet runs from start to end. Its figures mean nothing at these counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FLEET = Path(__file__).parents[4] / "benchmarks" / "fleet.py"
PLAN = FLEET.with_name("fleet_plan.py")

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(sys.platform != "linux", reason="it measures with /proc"),
]


class Report:
    """What one run printed, wrote and left behind."""

    def __init__(self, folder: Path) -> None:
        self.scratch, self.file = folder / "scratch", folder / "figures.json"
        command = [sys.executable, str(FLEET), "--smoke", "--json", str(self.file)]
        self.done = subprocess.run(
            [*command, "--dir", str(self.scratch)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert self.done.returncode == 0, self.done.stderr
        raw = json.loads(self.file.read_text("utf-8"))
        self.lines: list[dict[str, Any]] = raw["lines"]
        self.costs: dict[str, float | None] = raw["costs"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return Report(tmp_path_factory.mktemp("fleet"))


def test_every_row_of_the_fleet_is_measured(report: Report) -> None:
    assert {line["row"] for line in report.lines} == set("abcdef")
    assert None not in report.costs.values()


def test_commits_and_messages_stand_beside_the_bare_client(report: Report) -> None:
    beside = [line for line in report.lines if line["row"] in "ab"]
    assert all(line["bare"]["value"] > 0 for line in beside)
    assert all("x bare" in line["goal"]["ratio"] for line in beside)


def test_no_task_is_claimed_twice_or_too_early_at_any_speed(report: Report) -> None:
    (faults,) = [line for line in report.lines if line["goal"]["target"] == "0"]
    assert faults["ours"]["value"] == 0


def test_the_plan_can_be_made_again_from_the_figures(report: Report) -> None:
    command = [sys.executable, str(PLAN), str(report.file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout in report.done.stdout
    assert "not measured" not in done.stdout


def test_the_fleet_leaves_nothing_behind(report: Report) -> None:
    assert list(report.scratch.iterdir()) == []
