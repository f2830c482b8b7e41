"""Which trials there are, and what each may cost."""

from __future__ import annotations

import pytest

from bullpen import Invalid
from bullpen.runs.eval.plan import affordable, planned, read_arms


def test_every_arm_gets_the_same_money() -> None:
    trials = planned(["a", "b"], ["solo", "team"], repeat=3, budget_usd=24.0)
    by_arm = {arm: sum(t.usd or 0 for t in trials if t.arm == arm) for arm in ("solo", "team")}
    assert by_arm == {"solo": 12.0, "team": 12.0}
    assert {trial.usd for trial in trials} == {2.0}


def test_arms_without_agents_take_no_money() -> None:
    trials = planned(["a"], ["oracle", "empty", "solo"], repeat=1, budget_usd=5.0)
    assert {trial.arm: trial.usd for trial in trials} == {"oracle": 0.0, "empty": 0.0, "solo": 5.0}


def test_each_arm_is_first_equally_often() -> None:
    trials = planned(["a", "b"], ["solo", "team"], repeat=2, budget_usd=None)
    first = [trials[at].arm for at in range(0, len(trials), 2)]
    assert sorted(first) == ["solo", "solo", "team", "team"]


def test_every_trial_has_a_name_and_a_folder_of_its_own() -> None:
    trials = planned(["a", "b"], ["solo", "team"], repeat=3, budget_usd=None)
    assert len({trial.id for trial in trials}) == len(trials) == 12
    assert len({trial.folder for trial in trials}) == 12
    assert not any("solo" in trial.folder or "team" in trial.folder for trial in trials)


def test_a_used_up_budget_starts_no_more_agents() -> None:
    [free, paid] = planned(["a"], ["empty", "solo"], repeat=1, budget_usd=1.0)
    assert affordable(paid, [0.5, 0.4], 1.0)
    assert not affordable(paid, [0.5, 0.6], 1.0)
    assert affordable(free, [0.5, 0.6], 1.0)


@pytest.mark.parametrize("text", ["", ",", "duo", "solo,duo"])
def test_an_unknown_arm_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="arm"):
        read_arms(text)


def test_an_arm_is_named_once() -> None:
    assert read_arms("solo, team,solo") == ("solo", "team")
