"""Which tasks a team is worth, before anybody begins them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.team.budget.shape import Measured, NewTask, Past, choose, files_named


def shapes(
    *tasks: NewTask, past: Past | None = None, members: int = 3, tried: float = 0.0
) -> list[str]:
    found = choose(tasks, past or Past(), members=members, reviewed=False, tried=tried)
    return [found[task.key].shape for task in tasks]


def test_a_chain_is_done_by_one_agent() -> None:
    assert shapes(NewTask("a"), NewTask("b", ("a",)), NewTask("c", ("b",))) == ["solo"] * 3


def test_tasks_that_can_be_done_side_by_side_are_for_the_team() -> None:
    assert shapes(NewTask("a"), NewTask("b"), NewTask("c", ("a", "b"))) == ["team", "team", "solo"]


def test_tasks_that_all_touch_one_file_are_done_by_one_agent() -> None:
    one = frozenset({"src/routes.py"})
    tasks = [NewTask(key, files=one) for key in "abc"]
    found = choose(tasks, Past(), members=3, reviewed=False)
    assert {choice.shape for choice in found.values()} == {"solo"}
    assert "src/routes.py" in found["a"].why


def test_where_coordination_was_costly_only_large_tasks_are_for_the_team() -> None:
    tasks = (NewTask("a"), NewTask("b", effort="large"))
    assert shapes(*tasks, past=Past(coordination_share=0.5)) == ["solo", "team"]
    assert shapes(*tasks, past=Past(coordination_share=0.1)) == ["team", "team"]


def test_a_small_task_is_not_worth_a_team() -> None:
    assert shapes(NewTask("a", effort="small"), NewTask("b")) == ["solo", "team"]


def test_a_task_for_somebody_stays_theirs() -> None:
    assert shapes(NewTask("a", is_given=True), NewTask("b", ("a",))) == ["team", "solo"]


def test_one_member_is_no_team() -> None:
    assert shapes(NewTask("a"), NewTask("b"), members=1) == ["solo", "solo"]


def test_untested_and_large_work_of_one_agent_is_reviewed_if_there_is_a_reviewer() -> None:
    tasks = [
        NewTask("a"),
        NewTask("b", ("a",), is_tested=True),
        NewTask("c", ("b",), effort="large", is_tested=True),
    ]
    found = choose(tasks, Past(), members=2, reviewed=True)
    assert [found[key].shape for key in "abc"] == ["solo+review", "solo", "solo+review"]


def test_a_shape_that_surely_passed_more_in_evals_is_chosen_whatever_the_graph_says() -> None:
    past = Past(evals={"solo": Measured(0.6, 0.9), "team": Measured(0.1, 0.4)})
    assert shapes(NewTask("a"), NewTask("b"), past=past) == ["solo", "solo"]


def test_among_shapes_that_passed_alike_the_cheapest_is_chosen() -> None:
    past = Past(evals={"solo": Measured(0.3, 0.7, 2.0), "team": Measured(0.4, 0.8, 1.0)})
    found = choose([NewTask("a"), NewTask("b")], past, members=2, reviewed=False)
    assert found["a"].shape == "team"
    assert "$1.00 per accepted change" in found["a"].why


def test_the_cheapest_is_not_chosen_if_another_surely_passed_more() -> None:
    """None of the two good ones is surely better than the other."""
    seen = {
        "solo": Measured(0.0, 0.2, 0.1),
        "solo+review": Measured(0.4, 0.7, 2.0),
        "team": Measured(0.5, 0.8, 1.0),
    }
    found = choose([NewTask("a")], Past(evals=seen), members=2, reviewed=True)  # type: ignore[arg-type]
    assert found["a"].shape == "team"
    assert "$1.00 per accepted change" in found["a"].why


def test_intervals_that_are_too_wide_have_no_opinion() -> None:
    """One trial of each arm, and both passed: from 21 % to 100 %."""
    past = Past(evals={"solo": Measured(0.21, 1.0, 1.0), "team": Measured(0.21, 1.0, 2.0)})
    assert shapes(NewTask("a"), NewTask("b"), past=past) == ["team", "team"]


def test_without_a_price_of_each_the_cheapest_is_not_known() -> None:
    past = Past(evals={"solo": Measured(0.3, 0.7, 2.0), "team": Measured(0.4, 0.8, None)})
    assert shapes(NewTask("a"), NewTask("b", ("a",)), past=past) == ["solo", "solo"]


def test_evals_of_one_shape_alone_say_nothing() -> None:
    past = Past(evals={"solo": Measured(0.9, 1.0, 1.0)})
    assert shapes(NewTask("a"), NewTask("b"), past=past) == ["team", "team"]


def test_a_share_of_the_tasks_is_worked_on_in_the_other_way_and_says_so() -> None:
    tasks = [NewTask(f"task {number}") for number in range(1000)]
    found = choose(tasks, Past(), members=3, reviewed=False, tried=0.1)
    trials = [choice for choice in found.values() if choice.is_trial]
    assert 60 < len(trials) < 140
    assert {(each.shape, each.why.partition(";")[0]) for each in trials} == {
        ("solo", "tried to learn the difference")
    }
    assert found == choose(tasks, Past(), members=3, reviewed=False, tried=0.1)


def test_a_chain_is_never_tried_as_a_team() -> None:
    tasks = [NewTask(str(n), (str(n - 1),) if n else ()) for n in range(50)]
    assert shapes(*tasks, tried=0.5) == ["solo"] * 50


@given(st.lists(st.lists(st.integers(0, 30), max_size=4), max_size=30))
def test_every_task_of_any_graph_gets_a_choice_with_a_reason(graph: list[list[int]]) -> None:
    tasks = [
        NewTask(str(number), tuple(str(each) for each in after if each < number))
        for number, after in enumerate(graph)
    ]
    found = choose(tasks, Past(), members=2, reviewed=False, tried=0.2)
    assert set(found) == {task.key for task in tasks}
    assert all(choice.why for choice in found.values())


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Change src/a.py and docs.", {"src/a.py"}),
        ("See ./src/a.py, then README.md.", {"src/a.py", "README.md"}),
        ("Read ../../etc/passwd and /src/a.py", {"src/a.py"}),
        ("a.py", set()),
    ],
)
def test_only_files_of_the_project_count_as_named(text: str, named: set[str]) -> None:
    assert (
        files_named(text, {"src/a.py", "README.md", "etc/passwd"}.__contains__) - {"etc/passwd"}
        == named
    )
