"""Edges: both ends, no circles, nothing left behind; and new tasks from drafts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bullpen.errors import Invalid, NotFound, Refused, Unreadable
from bullpen.protocol.changes import DeleteTask, PutTask
from bullpen.protocol.task import Check, Task
from bullpen.team.tasks import edges, graph
from bullpen.team.tasks.drafts import Draft, drafted

if TYPE_CHECKING:
    from unit.team.conftest import MakeBoard, MakeTask


def ends(tasks: list[Task]) -> dict[str, tuple[list[str], list[str]]]:
    return {task.id: (task.blocked_by, task.blocks) for task in tasks}


# --- depend


def test_an_edge_is_noted_at_both_ends(make_board: MakeBoard, make_task: MakeTask) -> None:
    board = make_board(make_task("1"), make_task("2"), make_task("3"))
    task, changed = edges.depend(board, "3", ["1", "2", "1"])
    assert task.blocked_by == ["1", "2"]
    assert ends(changed) == {"3": (["1", "2"], []), "1": ([], ["3"]), "2": ([], ["3"])}
    assert board.all_asked == 0


def test_an_edge_that_is_there_changes_nothing(make_board: MakeBoard, make_task: MakeTask) -> None:
    board = make_board(make_task("1", blocks=["2"]), make_task("2", blocked_by=["1"]))
    assert edges.depend(board, "2", ["1"])[1] == []


@pytest.mark.parametrize(("blocks", "blocked_by"), [(["2"], []), ([], ["1"])])
def test_the_missing_end_of_an_edge_is_added(
    make_board: MakeBoard, make_task: MakeTask, blocks: list[str], blocked_by: list[str]
) -> None:
    board = make_board(make_task("1", blocks=blocks), make_task("2", blocked_by=blocked_by))
    task, changed = edges.depend(board, "2", ["1"])
    assert task.blocked_by == ["1"]
    assert ends(changed) == ({"2": (["1"], [])} if blocks else {"1": ([], ["2"])})


@pytest.mark.parametrize(
    ("on", "reason"), [("9", "unknown_task"), ("../1", "unknown_task"), ("1", "self_dependency")]
)
def test_a_task_waits_for_others_that_exist(
    make_board: MakeBoard, make_task: MakeTask, on: str, reason: str
) -> None:
    with pytest.raises(Refused) as error:
        edges.depend(make_board(make_task("1")), "1", [on])
    assert error.value.reason == reason


def test_only_tasks_that_exist_can_wait(make_board: MakeBoard, make_task: MakeTask) -> None:
    with pytest.raises(NotFound, match="no task '2'"):
        edges.depend(make_board(make_task("1")), "2", ["1"])


def chain(make_task: MakeTask, kept: str) -> list[Task]:
    """Task 4 waits for 3, 3 for 2, 2 for 1; `kept` says which ends are noted."""
    return [
        make_task(
            str(number),
            blocks=[str(number + 1)] if number < 4 and kept != "blocked_by" else [],
            blocked_by=[str(number - 1)] if number > 1 and kept != "blocks" else [],
        )
        for number in range(1, 5)
    ]


@pytest.mark.parametrize("kept", ["both", "blocks", "blocked_by"])
def test_a_circle_is_refused_whichever_ends_are_noted(
    make_board: MakeBoard, make_task: MakeTask, kept: str
) -> None:
    board = make_board(*chain(make_task, kept))
    with pytest.raises(Refused, match="4 -> 3 -> 2 -> 1") as error:
        edges.depend(board, "1", ["4"])
    assert error.value.reason == "cycle"
    assert board.all_asked == 0


def test_a_circle_is_refused_where_two_half_noted_chains_meet(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    board = make_board(
        make_task("1", blocks=["2"]),
        make_task("2"),
        make_task("3", blocked_by=["2"]),
    )
    with pytest.raises(Refused, match="3 -> 2 -> 1") as error:
        edges.depend(board, "1", ["3"])
    assert error.value.reason == "cycle"


def test_the_walk_for_circles_ends_in_a_circle_of_others_and_passes_missing_tasks(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    board = make_board(
        make_task("1"),
        make_task("2", blocked_by=["3", "99"]),
        make_task("3", blocked_by=["2"]),
    )
    assert edges.depend(board, "1", ["2"])[0].blocked_by == ["2"]


def test_an_edge_is_refused_while_a_task_behind_it_cannot_be_read(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    board = make_board(make_task("1"), make_task("2", blocked_by=["3"]), unreadable={"3"})
    with pytest.raises(Unreadable):
        edges.depend(board, "1", ["2"])


def test_a_long_circle_is_cut_in_the_message(make_board: MakeBoard, make_task: MakeTask) -> None:
    tasks = [make_task("1")]
    tasks += [make_task(str(number), blocked_by=[str(number - 1)]) for number in range(2, 40)]
    with pytest.raises(Refused, match=r"39 -> 38 .* -> 32 \.\.\.\."):
        edges.depend(make_board(*tasks), "1", ["39"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5))))
def test_edges_added_at_random_never_make_a_circle_and_only_circles_are_refused(
    make_board: MakeBoard, make_task: MakeTask, wanted: list[tuple[int, int]]
) -> None:
    board = make_board(*(make_task(str(number)) for number in range(6)))
    for waiter, blocker in wanted:
        before = {**board.records}
        try:
            _, changed = edges.depend(board, str(waiter), [str(blocker)])
        except Refused as error:
            assert error.reason == ("self_dependency" if waiter == blocker else "cycle")
            task = before[str(waiter)]
            before[task.id] = task.evolve(blocked_by=[*task.blocked_by, str(blocker)])
            assert graph.circles(before.values())
        else:
            board.records.update({task.id: task for task in changed})
            assert not graph.circles(board.records.values())


# --- undepend


def test_an_edge_is_removed_at_both_ends(make_board: MakeBoard, make_task: MakeTask) -> None:
    board = make_board(
        make_task("1", blocks=["2", "3"]), make_task("2", blocked_by=["1", "9", "../x"])
    )
    task, changed = edges.undepend(board, "2", ["1", "1"])
    assert task.blocked_by == ["9", "../x"]
    assert ends(changed) == {"2": (["9", "../x"], []), "1": ([], ["3"])}
    # What does not exist can be let go too.
    assert edges.undepend(board, "2", ["9", "../x"])[0].blocked_by == ["1"]


def test_half_an_edge_can_be_removed(make_board: MakeBoard, make_task: MakeTask) -> None:
    board = make_board(make_task("1", blocks=["2"]), make_task("2"))
    task, changed = edges.undepend(board, "2", ["1"])
    assert (task.blocked_by, ends(changed)) == ([], {"1": ([], [])})


def test_an_edge_that_is_not_there_cannot_be_removed(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    board = make_board(make_task("1"), make_task("2", blocked_by=["3"]))
    with pytest.raises(NotFound, match="depends on: 3"):
        edges.undepend(board, "2", ["1"])
    with pytest.raises(NotFound, match="depends on: nothing"):
        edges.undepend(board, "1", ["2"])


# --- delete


def test_deleting_a_task_leaves_no_reference_behind(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    board = make_board(
        make_task("1", blocks=["2"]),
        make_task("2", blocked_by=["1"], blocks=["3"]),
        # Nothing in task 2 says that these two name it.
        make_task("4", blocked_by=["2"]),
        make_task("5", blocks=["2", "4"]),
        make_task("6"),
    )
    task, changes = edges.delete(board, "2")
    assert task.id == "2"
    assert changes[0] == DeleteTask("2")
    assert ends([change.task for change in changes[1:] if isinstance(change, PutTask)]) == {
        "1": ([], []),
        "4": ([], []),
        "5": ([], ["4"]),
    }


def test_only_tasks_that_exist_can_be_deleted(make_board: MakeBoard) -> None:
    with pytest.raises(NotFound, match="no tasks yet"):
        edges.delete(make_board(), "2")


# --- drafts


def test_a_new_task_has_the_next_id_and_no_facts_of_ours(make_board: MakeBoard) -> None:
    board = make_board()
    created, changed = drafted(board, [Draft("Build", metadata={"area": "ui"})])
    assert created[0].raw == {
        "id": "100",
        "subject": "Build",
        "description": "",
        "status": "pending",
        "blocks": [],
        "blockedBy": [],
        "metadata": {"area": "ui"},
    }
    assert changed == []
    assert drafted(board, [Draft("Build")])[0][0].metadata is None
    assert board.all_asked == 0


def test_new_tasks_are_linked_to_old_ones_and_to_one_another(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    board = make_board(make_task("1", blocks=["9", "101"]))
    created, changed = drafted(
        board,
        [
            Draft("a", blocked_by=["1"]),
            Draft("b", blocked_by=["@0", "1", "@0"]),
            Draft("c", blocked_by=["@1", "@0"]),
        ],
    )
    assert ends(created) == {
        "100": (["1"], ["101", "102"]),
        "101": (["100", "1"], ["102"]),
        "102": (["101", "100"], []),
    }
    assert ends(changed) == {"1": ([], ["9", "101", "100"])}
    assert board.all_asked == 0


@pytest.mark.parametrize("blocker", ["9", "100", "101", "@1", "@2", "@-1", "@", "@²"])
def test_a_draft_waits_only_for_old_tasks_and_earlier_drafts(
    make_board: MakeBoard, blocker: str
) -> None:
    with pytest.raises(Refused) as error:
        drafted(make_board(), [Draft("a"), Draft("b", blocked_by=[blocker])])
    assert error.value.reason == "unknown_task"


def test_a_drafts_checks_are_stored_without_results(make_board: MakeBoard) -> None:
    check = Check.new(name="tests", kind="command", run="pytest", passed=True, attempt=0)
    task = drafted(make_board(), [Draft("a", checks=[check])])[0][0]
    assert task.raw["metadata"] == {
        "bullpen": {
            "attempt": 0,
            "checks": [{"name": "tests", "kind": "command", "run": "pytest"}],
        }
    }


@pytest.mark.parametrize(
    "fields",
    [
        {"subject": "  "},
        {"metadata": {"bullpen": {}}},
        {"metadata": {"x": object()}},
        {"checks": [Check.new(name="a", kind="command")]},
        {"checks": [Check.new(name="a", kind="file")]},
        {"checks": [Check.new(name="", kind="report")]},
        {"checks": [Check.new(name="a", kind="report"), Check.new(name="a", kind="report")]},
    ],
)
def test_a_draft_that_makes_no_task_is_refused(
    make_board: MakeBoard, fields: dict[str, Any]
) -> None:
    with pytest.raises(Invalid):
        drafted(make_board(), [Draft(**{"subject": "a", **fields})])


def test_deep_metadata_is_refused(make_board: MakeBoard) -> None:
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"x": deep}
    with pytest.raises(Invalid, match="deep"):
        drafted(make_board(), [Draft("a", metadata=deep)])


def test_a_draft_has_a_member_as_its_owner(make_board: MakeBoard) -> None:
    assert drafted(make_board(), [Draft("a", owner="alice")])[0][0].owner == "alice"
    with pytest.raises(NotFound, match="'carol'"):
        drafted(make_board(), [Draft("a", owner="carol")])
