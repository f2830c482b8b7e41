"""The benchmark runs from start to end. Its figures mean nothing at these counts."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RUN = Path(__file__).parents[4] / "benchmarks" / "run.py"

COLUMNS = ("ours", "peer approach", "rewrite done right", "bare system calls")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it measures with flock, inotify")


class Report:
    """What one run printed, wrote and left behind."""

    def __init__(self, folder: Path) -> None:
        self.scratch = folder / "scratch"
        file = folder / "figures.json"
        command = [sys.executable, str(RUN), "--smoke", "--json", str(file)]
        self.done = subprocess.run(
            [*command, "--dir", str(self.scratch)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert self.done.returncode == 0, self.done.stderr
        self.rows: list[dict[str, Any]] = json.loads(file.read_text("utf-8"))["rows"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return Report(tmp_path_factory.mktemp("bench"))


def test_every_row_of_the_table_of_targets_is_measured(report: Report) -> None:
    assert {row["row"] for row in report.rows} == set(range(1, 11))
    assert all(math.isfinite(row["ours"]["value"]) for row in report.rows)


def test_every_row_with_a_target_says_whether_it_was_met(report: Report) -> None:
    for row in report.rows:
        judged = row["verdict"] in {"PASS", "FAIL"} or "not judged: load" in row["verdict"]
        assert judged == (row["goal"] != "-")


def test_every_row_says_how_it_was_measured(report: Report) -> None:
    for row in report.rows:
        assert {"name", "unit", "figure", "n", "spread", "load", "goal", "verdict"} <= row.keys()
        assert row["n"] >= 1
        assert row["spread"] is None or row["spread"][0] <= row["figure"] <= row["spread"][1]


def test_nothing_is_lost_claimed_twice_or_torn_at_any_speed(report: Report) -> None:
    faults = [row for row in report.rows if row["goal"].startswith("0")]
    assert {row["row"] for row in faults} == {4, 6, 7}
    for row in faults:
        assert row["ours"]["value"] == 0, row["name"]


def test_no_message_is_seen_before_it_is_sent(report: Report) -> None:
    (seen,) = (row for row in report.rows if "until a watcher has read it" in row["name"])
    assert all(seen[column]["spread"][0] > 0 for column in ("ours", "peer approach", COLUMNS[-1]))


def test_ours_stands_beside_the_other_approaches(report: Report) -> None:
    sends = [row for row in report.rows if row["row"] in {1, 3}]
    assert all(row[column] is not None for row in sends for column in COLUMNS)


def test_the_table_is_markdown_with_one_line_a_row(report: Report) -> None:
    lines = [line for line in report.done.stdout.splitlines() if line.startswith("|")]
    assert len(lines) == len(report.rows) + 2
    assert len({line.count(" | ") for line in lines}) == 1


def test_it_cleans_up_after_itself(report: Report) -> None:
    assert list(report.scratch.iterdir()) == []
