"""Benchmarks run from start to end on small teams, and write rows that the page can sum."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .bench_script import Report

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="they measure with Linux clocks")


def test_growth_has_every_operation_and_the_goals_of_the_large_teams_only(tmp_path: Path) -> None:
    found = Report(tmp_path, "growth", "--only", "T100", "--repeats", "2")
    assert len(found.rows) == 12
    assert all(row["figure"] > 0 for row in found.rows)
    assert "| claim_next |" in found.done.stdout
    assert found.goals == {}


def test_commands_are_judged_by_their_wall_time(tmp_path: Path) -> None:
    found = Report(tmp_path, "commands", "--rounds", "1", "--tasks", "20")
    assert found.goals["`bullpen --help`: wall time"] == "< 90 ms"
    assert found.goals["`bullpen ps`: wall time"] == "< 250 ms"
    assert not any("processor" in name or "20 tasks" in name for name in found.goals)
    assert "| `bullpen inbox` |" in found.done.stdout


def test_tokens_are_judged_at_any_load_and_the_whole_price_after_fifty_turns(
    tmp_path: Path,
) -> None:
    found = Report(tmp_path, "tokens", "--turns", "3")
    assert {row["verdict"] for row in found.rows} == {"-", "PASS"}
    assert found.goals["30 members, 100 tasks: the digest when nothing changed"] == "< 100 tokens"
    assert not any("cache-priced" in name for name in found.goals)


def test_waiting_is_measured(tmp_path: Path) -> None:
    words = ("--agents=2", "--seconds=0.2", "--messages=3")
    assert "send to read, p50" in Report(tmp_path, "idle", *words).done.stdout


def test_a_small_team_is_followed_and_every_figure_is_there(tmp_path: Path) -> None:
    words = ("--agents", "5", "--tasks", "50", "--messages", "100")
    # Above a target it ends with 1; a failure shows in its figures.
    found = Report(tmp_path, "view", *words, codes=(0, 1))
    assert len(found.rows) == 5
    assert all(row["figure"] > 0 for row in found.rows)


@pytest.mark.nightly
def test_the_screens_of_a_small_team_are_measured(tmp_path: Path) -> None:
    found = Report(tmp_path, "screens", "--rounds", "1", "--only", "small")
    assert found.goals == {"`bullpen tui`: first picture, small": "< 0.7 s"}
    assert len(found.rows) == 3


def test_trees_merges_and_status_stand_beside_bare_git(tmp_path: Path) -> None:
    trees = Report(tmp_path, "worktrees", "--files", "60", "--trees", "2")
    assert set(trees.goals.values()) == {"<= 1.3 x git worktree add"}
    assert [row["n"] for row in trees.rows] == [2, 2]
    for script, more in (
        ("merge_queue", ("--merges", "2", "--batch", "2")),
        ("git_status", ("--rounds", "2")),
    ):
        (row,) = Report(tmp_path, script, "--files", "60", *more, codes=(0, 1)).rows
        assert row["figure"] > 0
        assert row["bare"]["value"] > 0
