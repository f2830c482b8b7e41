"""What the trials of an eval say about each arm."""

from __future__ import annotations

import random
from math import isclose

import pytest

from bullpen.runs.eval.statistics import (
    Judged,
    Measures,
    Verdict,
    compared,
    figures,
    holm,
    sign_test,
    wilson,
)


def trial(task: str, arm: str, verdict: Verdict, **used: float) -> Judged:
    return Judged(task, arm, verdict, Measures(**used))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("passed", "trials", "low", "high"),
    [
        # Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_is_the_published_one(
    passed: int, trials: int, low: float, high: float
) -> None:
    found = wilson(passed, trials)
    assert isclose(found.low, low, abs_tol=5e-5)
    assert isclose(found.high, high, abs_tol=5e-5)


def test_the_interval_has_the_odds_in_95_of_100_evals() -> None:
    dice = random.Random(4)
    hits = 0
    for _ in range(2000):
        passed = sum(dice.random() < 0.3 for _ in range(50))
        found = wilson(passed, 50)
        hits += found.low <= 0.3 <= found.high
    assert 0.93 < hits / 2000 < 0.97


def test_an_arm_is_charged_what_its_rejected_changes_cost() -> None:
    [arm] = figures(
        [
            trial("a", "team", "passed", usd=1.0, seconds=10.0),
            trial("b", "team", "failed", usd=3.0, seconds=20.0),
        ],
        ["team"],
    )
    assert (arm.usd_per_accepted, arm.seconds_per_accepted) == (4.0, 30.0)


def test_a_trial_that_could_not_be_run_is_no_failure() -> None:
    [arm] = figures([trial("a", "solo", "passed"), trial("b", "solo", "error")], ["solo"])
    assert (arm.passed, arm.trials, arm.errors) == (1, 1, 1)


def test_without_trials_there_is_no_rate() -> None:
    [arm] = figures([], ["solo"])
    assert arm.rate is None
    assert arm.usd_per_accepted is None
    assert arm.coordination_share is None


def test_nothing_accepted_has_no_price() -> None:
    [arm] = figures([trial("a", "solo", "failed", usd=2.0)], ["solo"])
    assert arm.usd_per_accepted is None


def test_coordination_is_a_share_of_money_if_all_prices_are_known() -> None:
    used = {"usd": 4.0, "tokens": 100, "coordination_usd": 1.0, "coordination_tokens": 50}
    [arm] = figures([trial("a", "team", "passed", **used)], ["team"])
    assert arm.coordination_share == 0.25
    [arm] = figures([trial("a", "team", "passed", **used, unpriced=1)], ["team"])
    assert arm.coordination_share == 0.5


def test_arms_are_compared_task_by_task() -> None:
    trials = [trial(f"t{n}", "solo", "failed") for n in range(8)]
    trials += [trial(f"t{n}", "team", "passed") for n in range(8)]
    trials += [trial("only", "team", "passed")]
    [pair] = compared(figures(trials, ["solo", "team"]))
    assert (pair.first_only, pair.second_only, pair.even) == (0, 8, 0)
    assert pair.better == "team"


def test_few_tasks_make_no_difference_sure() -> None:
    trials = [trial("a", "solo", "failed"), trial("a", "team", "passed")]
    [pair] = compared(figures(trials, ["solo", "team"]))
    assert pair.better is None


@pytest.mark.parametrize(("one", "two", "p"), [(0, 0, 1.0), (5, 5, 1.0), (0, 6, 2 / 64)])
def test_the_sign_test_is_two_sided(one: int, two: int, p: float) -> None:
    assert isclose(sign_test(one, two), p)


def test_the_odds_of_several_tests_are_corrected_as_published() -> None:
    # Wright, Biometrics 48 (1992), and p.adjust of R with method "holm".
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([0.04]) == [0.04]
    assert holm([]) == []


def test_three_arms_that_are_equally_good_rarely_differ() -> None:
    """In at most 5 of 100 evals any of the three pairs does."""
    dice = random.Random(7)
    wrong = 0
    for _ in range(400):
        made = [
            trial(f"t{task}", arm, "passed" if dice.random() < 0.5 else "failed")
            for arm in ("solo", "solo+review", "team")
            for task in range(60)
        ]
        wrong += any(each.better for each in compared(figures(made, ())))
    assert wrong / 400 <= 0.05


def test_a_check_of_the_suite_is_not_corrected() -> None:
    made = [trial(f"t{n}", arm, "passed") for arm in ("solo", "oracle", "team") for n in range(8)]
    made += [trial(f"t{n}", "empty", "failed") for n in range(8)]
    found = {(each.first, each.second): each for each in compared(figures(made, ()))}
    assert found["solo", "empty"].p_value == pytest.approx(2 / 2**8)
