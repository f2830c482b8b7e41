"""What the run of hidden tests says about a change."""

from __future__ import annotations

from typing import Any

import pytest

from bullpen.runs.eval.judging import judged, outcomes_in

GOOD = {"tests.test_a.test_one": "passed", "tests.test_a.test_two": "passed"}


def said(code: int | None, **more: Any) -> tuple[bool, str]:
    about: dict[str, Any] = {
        "outcomes": None,
        "reward": None,
        "must_pass": (),
        "wants_outcomes": False,
        "wants_reward": False,
    }
    return judged(code, **{**about, **more})


def test_without_results_the_exit_code_decides() -> None:
    assert said(0) == (True, "")
    assert said(3)[0] is False


def test_tests_that_take_too_long_accept_nothing() -> None:
    assert said(None, outcomes=GOOD, wants_outcomes=True)[0] is False


def test_an_early_exit_without_results_is_not_accepted() -> None:
    """`os._exit(0)` in the change under test."""
    assert said(0, outcomes={}, wants_outcomes=True) == (
        False,
        "the tests wrote no results (exit code 0)",
    )


def test_results_where_all_were_skipped_accept_nothing() -> None:
    assert said(0, outcomes={"a": "skipped"}, wants_outcomes=True)[0] is False


def test_one_failure_is_enough() -> None:
    assert said(1, outcomes={**GOOD, "x": "failed"}, wants_outcomes=True)[0] is False


def test_named_tests_decide_alone() -> None:
    """As in SWE-bench: others may fail as before."""
    outcomes = {**GOOD, "x": "failed"}
    named = ["tests/test_a.py::test_one"]
    assert said(1, outcomes=outcomes, wants_outcomes=True, must_pass=named)[0] is True
    missing = [*named, "tests/test_a.py::test_three"]
    assert said(0, outcomes=outcomes, wants_outcomes=True, must_pass=missing)[0] is False


@pytest.mark.parametrize(
    ("reward", "passed"), [("1", True), ("1.0\n", True), ("0.5", False), ("", False), ("x", False)]
)
def test_a_reward_has_to_be_one(reward: str, passed: bool) -> None:
    assert said(0, reward=reward, wants_reward=True)[0] is passed


JUNIT = """<testsuites><testsuite>
<testcase classname="tests.test_a" name="test_one"/>
<testcase classname="tests.test_a" name="test_two"><failure>no</failure></testcase>
<testcase classname="tests.test_a" name="test_two"/>
<testcase classname="tests.test_a" name="test_three"><skipped/></testcase>
</testsuite></testsuites>"""


def test_results_are_read_and_one_failure_of_a_name_counts() -> None:
    assert outcomes_in(JUNIT) == {
        "tests.test_a.test_one": "passed",
        "tests.test_a.test_two": "failed",
        "tests.test_a.test_three": "skipped",
    }


@pytest.mark.parametrize(
    "text", ["", "<", "{}", "<!DOCTYPE x [<!ENTITY a 'b'>]><testcase name='&a;'/>"]
)
def test_what_is_no_results_file_has_no_outcomes(text: str) -> None:
    assert outcomes_in(text) == {}
