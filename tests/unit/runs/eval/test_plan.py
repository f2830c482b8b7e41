"""Which trials there are, and what each may cost."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen import Invalid
from bullpen.runs.eval.plan import (
    ARMS,
    Attempt,
    Part,
    Trial,
    affordable,
    money_for,
    planned,
    read_arms,
    read_part,
)
from support.rows import each_row


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


def attempts(*spent: float | None, limit: float = 0.5) -> list[Attempt]:
    return [Attempt("t", number, limit, usd) for number, usd in enumerate(spent, 1)]


def test_a_used_up_budget_starts_no_more_agents() -> None:
    free, paid = Trial("a", "empty", 1, 0.0), Trial("a", "solo", 1, 0.5)
    assert affordable(paid, attempts(0.5), 1.0)
    assert not affordable(paid, attempts(0.5, 0.1), 1.0)
    assert affordable(free, attempts(0.5, 0.6), 1.0)


def test_an_attempt_of_which_the_price_is_not_known_counts_with_its_limit() -> None:
    paid = Trial("a", "solo", 1, 0.5)
    assert not affordable(paid, attempts(None, None), 1.0)
    assert affordable(paid, attempts(None, 0.0), 1.0)


def test_a_request_that_was_paid_beyond_a_limit_stops_nothing_unless_it_used_up_all() -> None:
    paid = Trial("a", "solo", 1, 0.5)
    assert affordable(paid, attempts(0.51), 1.0)
    assert not affordable(paid, attempts(1.2), 1.0)


PLANS = st.tuples(
    st.integers(1, 12),
    st.lists(st.sampled_from(ARMS), min_size=1, max_size=5, unique=True),
    st.integers(1, 7),
    st.floats(0.01, 1000.0),
    st.integers(1, 9),
)


def parts_of(
    plan: tuple[int, list[str], int, float, int],
) -> tuple[list[Trial], list[list[Trial]]]:
    """The trials of a whole eval, and those of each of its parts."""
    count, arms, repeat, usd, parts = plan
    tasks = [f"t{number}" for number in range(count)]
    whole = planned(tasks, arms, repeat=repeat, budget_usd=usd)
    made = [
        planned(tasks, arms, repeat=repeat, budget_usd=usd, part=Part(number, parts))
        for number in range(1, parts + 1)
    ]
    return whole, made


@given(PLANS)
def test_the_parts_together_are_exactly_the_whole(
    plan: tuple[int, list[str], int, float, int],
) -> None:
    whole, parts = parts_of(plan)
    found = [trial for part in parts for trial in part]
    assert len(found) == len(set(found)) == len(whole)
    assert set(found) == set(whole)


@given(PLANS)
def test_in_every_part_each_arm_has_the_same_tries(
    plan: tuple[int, list[str], int, float, int],
) -> None:
    _, parts = parts_of(plan)
    for part in parts:
        by_arm = {arm: [(t.task, t.number) for t in part if t.arm == arm] for arm in plan[1]}
        assert all(sorted(tries) == sorted(by_arm[plan[1][0]]) for tries in by_arm.values())
    sizes = [len(part) // len(plan[1]) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@given(PLANS, st.randoms(use_true_random=False), st.integers(1, 4))
def test_all_parts_together_never_start_more_than_the_budget_covers(
    plan: tuple[int, list[str], int, float, int], dice: Random, tries: int
) -> None:
    """Each part knows only its own attempts; some are killed, some fail and are tried again."""
    _, parts = parts_of(plan)
    started = 0.0
    for part in parts:
        money = money_for(part, plan[3])
        known: list[Attempt] = []
        for trial in [trial for trial in part for _ in range(tries)]:
            if trial.usd and affordable(trial, known, money):
                spent = dice.choice([None, 0.0, trial.usd, dice.random() * trial.usd])
                known.append(Attempt(trial.id, len(known), trial.usd, spent))
        started += sum(attempt.spent for attempt in known)
    assert started <= plan[3] * (1 + 1e-6)


def test_no_task_is_always_in_the_same_part() -> None:
    for tasks, parts in ((3, 3), (6, 3), (4, 2), (2, 4)):
        names = [f"t{number}" for number in range(tasks)]
        first = planned(names, ["solo"], repeat=12, budget_usd=None, part=Part(1, parts))
        assert {trial.task for trial in first} == set(names)


def test_in_a_part_no_arm_is_always_first() -> None:
    for tasks in (2, 3, 4):
        names = [f"t{number}" for number in range(tasks)]
        part = planned(names, ["solo", "team"], repeat=4, budget_usd=None, part=Part(1, 2))
        assert {part[at].arm for at in range(0, len(part), 2)} == {"solo", "team"}


@each_row("text", ["", "2", "0/3", "4/3", "1/0", "1/-1", "1/2/3", "a/b", "1 / 2"])
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="is not a part"):
        read_part(text)


def test_a_part_is_read_as_it_is_written() -> None:
    assert read_part("2/3") == Part(2, 3)
    assert str(Part(2, 3)) == "2/3"


@pytest.mark.parametrize("text", ["", ",", "duo", "solo,duo"])
def test_an_unknown_arm_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="arm"):
        read_arms(text)


def test_an_arm_is_named_once() -> None:
    assert read_arms("solo, team,solo") == ("solo", "team")
