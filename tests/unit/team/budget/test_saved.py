"""What a team saved over one agent, and what it cost."""

from __future__ import annotations

import pytest

from bullpen.team.budget.saved import WorkedTask, saved


def worked(began: float, ended: float, *, usd: float = 0.0, alone: bool = False) -> WorkedTask:
    return WorkedTask(began * 60, ended * 60, 3, usd, alone)


def test_without_a_team_nothing_is_said() -> None:
    assert saved([worked(0, 10, alone=True)], 0.0) is None


def test_tasks_side_by_side_save_what_they_overlap() -> None:
    found = saved([worked(0, 20), worked(0, 20), worked(5, 25)], 1.2)
    assert found is not None
    assert found.seconds.value == 35 * 60
    assert found.words == (
        "The team saved 35 min for $1.20 (an estimate: too few tasks were done by one agent alone"
        " to compare)."
    )


def test_tasks_one_after_another_cost_something_for_nothing() -> None:
    found = saved([worked(0, 10), worked(10, 20)], 6.0)
    assert found is not None
    assert found.words.startswith("The team cost $6.00 more than one agent, and saved no time")


def test_with_tasks_done_alone_the_estimate_has_an_interval() -> None:
    alone = [worked(0, 10 + n % 3, usd=0.10, alone=True) for n in range(6)]
    team = [worked(0, 12, usd=0.2) for _ in range(5)]
    found = saved([*alone, *team], 0.5)
    assert found is not None
    assert found.seconds.low is not None and found.seconds.high is not None
    # Five tasks of about 11 minutes one after another, less the 12 that the team took.
    assert found.seconds.low < 43 * 60 < found.seconds.high
    assert found.seconds.value == pytest.approx(43 * 60)
    assert found.usd.value == pytest.approx(0.5 + 1.0 - 0.5)
    assert found.words == "The team saved 43 min (38 to 48) for $1.00 ($1.00 to $1.00)."


@pytest.mark.parametrize("count", [3, 8, 12, 40])
def test_the_interval_holds_the_truth_nearly_always(count: int) -> None:
    """Tasks take 10 minutes give or take 2; the truth is what ten of them take one by one."""
    hits = 0
    for round_ in range(200):
        lengths = [10 + 2 * (((round_ * 7919 + n * 104729) % 1000) / 500 - 1) for n in range(count)]
        alone = [worked(0, length, alone=True) for length in lengths]
        found = saved([*alone, *[worked(0, 10) for _ in range(10)]], 0.0)
        assert found is not None and found.seconds.low is not None
        assert found.seconds.high is not None
        hits += found.seconds.low <= 90 * 60 <= found.seconds.high
    assert hits >= 180
