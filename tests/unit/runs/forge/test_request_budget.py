"""What limits the requests of a client: a read that does not fit goes on where it stopped."""

from __future__ import annotations

import pytest

from bullpen.runs.forge.looking.request_budget import OutOfRequests, RequestBudget


def read(budget: RequestBudget, *keys: str) -> list[str]:
    """Read several things, as a client does."""
    said = []
    for key in keys:
        answer = budget.known(key)
        if answer is None:
            budget.take()
            answer = key.upper()
            budget.keep(key, answer)
        said.append(answer)
    return said


def test_a_read_of_three_requests_is_done_in_three_rounds_of_one() -> None:
    budget = RequestBudget()
    for _ in range(2):
        with budget.limited(1), pytest.raises(OutOfRequests), budget.one_read():
            read(budget, "a", "b", "c")
    with budget.limited(1), budget.one_read():
        assert read(budget, "a", "b", "c") == ["A", "B", "C"]
    assert budget.used == 3


def test_outside_of_a_read_nothing_is_limited_and_nothing_old_is_used() -> None:
    budget = RequestBudget()
    with budget.limited(1), pytest.raises(OutOfRequests), budget.one_read():
        read(budget, "a", "b")
    assert read(budget, "a", "b") == ["A", "B"]
    assert budget.used == 3


def test_a_read_that_is_done_or_fails_begins_anew() -> None:
    budget = RequestBudget()
    with budget.one_read():
        read(budget, "a")
    with pytest.raises(ValueError, match="no"), budget.one_read():
        read(budget, "a")
        raise ValueError("no")
    with budget.one_read():
        read(budget, "a")
    assert budget.used == 3


def test_what_changed_may_cost_more() -> None:
    budget = RequestBudget()
    with budget.limited(1), budget.one_read():
        read(budget, "a")
        budget.lift()
        read(budget, "b", "c")
    assert budget.used == 3
