"""The benchmark runs from start to end. Its figures mean nothing at these counts."""

from __future__ import annotations

import math
import sys

import pytest

from .bench_script import Report

COLUMNS = ("ours", "peer approach", "rewrite done right", "bare")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it measures with flock, inotify")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return Report(tmp_path_factory.mktemp("bench"), "run", "--smoke")


def test_every_row_of_the_table_of_targets_is_measured(report: Report) -> None:
    assert {row["row"] for row in report.rows} == set(range(1, 11))
    assert all(math.isfinite(row["ours"]["value"]) for row in report.rows)


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
