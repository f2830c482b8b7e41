"""The benchmark of the fleet runs from start to end. Its figures mean nothing at these counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .bench_script import BENCHMARKS, Report

PLAN = BENCHMARKS / "fleet_plan.py"

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(sys.platform != "linux", reason="it measures with /proc"),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return Report(tmp_path_factory.mktemp("fleet"), "fleet", "--smoke")


def test_every_row_of_the_fleet_is_measured(report: Report) -> None:
    assert {row["row"] for row in report.rows} == set("abcdef")
    assert None not in report.raw["costs"].values()


def test_commits_and_messages_stand_beside_the_bare_client(report: Report) -> None:
    beside = [row for row in report.rows if row["row"] in "ab"]
    assert all(row["bare"]["value"] > 0 for row in beside)
    assert all("x bare" in f"{row['ratio']} {row['goal']} {row['unit']}" for row in beside)


def test_no_task_is_claimed_twice_or_too_early_at_any_speed(report: Report) -> None:
    (faults,) = [row for row in report.rows if row["goal"] == "0"]
    assert faults["figure"] == 0


def test_the_plan_can_be_made_again_from_the_figures(report: Report, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    file.write_text(json.dumps(report.raw), "utf-8")
    command = [sys.executable, str(PLAN), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout in report.done.stdout
    assert "not measured" not in done.stdout
