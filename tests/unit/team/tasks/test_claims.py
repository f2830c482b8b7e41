"""Who may claim which task, one promise a test, on a view made by hand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from bullpen.errors import Invalid, NotFound, Refused, Unreadable
from bullpen.team.tasks import rules

pytestmark = pytest.mark.no_loss

if TYPE_CHECKING:
    from unit.team.conftest import MakeBoard, MakeTask

NOW = 1_000_000


def refusal(error: pytest.ExceptionInfo[Refused]) -> str:
    return error.value.reason


def test_a_claimed_task_is_in_progress_owned_and_one_attempt_further(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    task = rules.claim(make_board(make_task("1")), "1", by="alice", now_ms=NOW)
    assert (task.status, task.owner, task.facts.attempt) == ("in_progress", "alice", 1)
    assert task.facts.lease_until_ms is None
    released = rules.released(task, None)
    again = rules.claim(make_board(released), "1", by="bob", now_ms=NOW, lease_s=2.5)
    assert (again.owner, again.facts.attempt) == ("bob", 2)
    assert again.facts.lease_until_ms == NOW + 2500


def test_a_claim_forgets_the_report_of_an_older_attempt(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    task = make_task("1").with_facts(attempt=1, report="old")
    assert rules.claim(make_board(task), "1", by="alice", now_ms=NOW).facts.report is None


def test_a_task_that_is_not_there_cannot_be_claimed(make_board: MakeBoard) -> None:
    for task_id in ("7", "../7", ""):
        with pytest.raises(Refused) as error:
            rules.claim(make_board(), task_id, by="alice", now_ms=NOW)
        assert refusal(error) == "task_not_found"


def test_a_task_that_cannot_be_read_is_not_missing(make_board: MakeBoard) -> None:
    with pytest.raises(Unreadable):
        rules.claim(make_board(unreadable={"1"}), "1", by="alice", now_ms=NOW)


def test_a_completed_task_cannot_be_claimed(make_board: MakeBoard, make_task: MakeTask) -> None:
    task = make_task("1", status="completed", owner="alice")
    with pytest.raises(Refused) as error:
        rules.claim(make_board(task), "1", by="alice", now_ms=NOW)
    assert refusal(error) == "already_resolved"


@pytest.mark.parametrize("owner", ["bob", "bob@crew", "alice", "alice@crew", None, ""])
def test_a_task_in_progress_cannot_be_claimed_not_even_by_its_owner(
    make_board: MakeBoard, make_task: MakeTask, owner: str | None
) -> None:
    task = make_task("1", status="in_progress", owner=owner)
    with pytest.raises(Refused) as error:
        rules.claim(make_board(task), "1", by="alice", now_ms=NOW)
    assert refusal(error) == "already_claimed"


@pytest.mark.parametrize("owner", ["bob", "bob@crew"])
def test_a_task_assigned_to_another_cannot_be_claimed(
    make_board: MakeBoard, make_task: MakeTask, owner: str
) -> None:
    with pytest.raises(Refused, match="assigned to 'bob'") as error:
        rules.claim(make_board(make_task("1", owner=owner)), "1", by="alice", now_ms=NOW)
    assert refusal(error) == "already_claimed"


@pytest.mark.parametrize("owner", ["alice", "alice@crew", "", None])
def test_a_pending_task_can_be_claimed_if_it_is_ours_or_nobodys(
    make_board: MakeBoard, make_task: MakeTask, owner: str | None
) -> None:
    board = make_board(make_task("1", owner=owner))
    assert rules.claim(board, "1", by="alice", now_ms=NOW).owner == "alice"


@pytest.mark.parametrize("status", ["pending", "in_progress"])
def test_a_task_with_an_open_blocker_cannot_be_claimed(
    make_board: MakeBoard, make_task: MakeTask, status: str
) -> None:
    board = make_board(make_task("1", status=status), make_task("2", blocked_by=["1"]))
    with pytest.raises(Refused, match="'1'") as error:
        rules.claim(board, "2", by="alice", now_ms=NOW)
    assert refusal(error) == "blocked"


def test_a_blocker_that_is_missing_or_unreadable_blocks(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    task = make_task("5", blocked_by=["1", "2", "../3"])
    board = make_board(make_task("1", status="completed"), task, unreadable={"2"})
    with pytest.raises(Refused, match=r"is blocked by '2', '\.\./3'") as error:
        rules.claim(board, "5", by="alice", now_ms=NOW)
    assert refusal(error) == "blocked"


def test_a_long_list_of_blockers_is_cut(make_board: MakeBoard, make_task: MakeTask) -> None:
    task = make_task("50", blocked_by=[str(number) for number in range(1, 11)])
    with pytest.raises(Refused, match="'8' and 2 more"):
        rules.claim(make_board(task), "50", by="alice", now_ms=NOW)


def test_completed_blockers_do_not_block(make_board: MakeBoard, make_task: MakeTask) -> None:
    board = make_board(make_task("1", status="completed"), make_task("2", blocked_by=["1"]))
    assert rules.claim(board, "2", by="alice", now_ms=NOW).status == "in_progress"


@pytest.mark.parametrize("owner", ["alice", "alice@crew"])
def test_who_is_busy_cannot_claim_unless_it_says_also(
    make_board: MakeBoard, make_task: MakeTask, owner: str
) -> None:
    board = make_board(make_task("1", status="in_progress", owner=owner), make_task("2"))
    with pytest.raises(Refused, match="is working on '1'") as error:
        rules.claim(board, "2", by="alice", now_ms=NOW)
    assert refusal(error) == "agent_busy"
    assert rules.claim(board, "2", by="alice", also=True, now_ms=NOW).owner == "alice"
    assert rules.claim(board, "2", by="bob", now_ms=NOW).owner == "bob"


def test_bookkeeping_tasks_of_other_programs_make_nobody_busy(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    internal = make_task("1", status="in_progress", owner="alice", metadata={"_internal": True})
    board = make_board(internal, make_task("2"))
    assert rules.claim(board, "2", by="alice", now_ms=NOW).owner == "alice"


def test_the_reasons_are_looked_for_in_their_order(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    busy = make_task("1", status="in_progress", owner="alice")
    blocked = make_task("2", blocked_by=["1"])
    with pytest.raises(Refused) as error:
        rules.claim(make_board(busy, blocked), "2", by="alice", now_ms=NOW)
    assert refusal(error) == "blocked"
    taken = make_task("2", blocked_by=["1"], owner="bob")
    with pytest.raises(Refused) as error:
        rules.claim(make_board(busy, taken), "2", by="alice", now_ms=NOW)
    assert refusal(error) == "already_claimed"


def test_only_members_claim(make_board: MakeBoard, make_task: MakeTask) -> None:
    with pytest.raises(NotFound, match=r"'alcie'.*Did you mean 'alice'"):
        rules.claim(make_board(make_task("1")), "1", by="alcie", now_ms=NOW)


def test_all_tasks_are_read_for_the_busy_check_only(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    board = make_board(make_task("1"))
    rules.claim(board, "1", by="alice", also=True, now_ms=NOW)
    assert board.all_asked == 0
    rules.claim(board, "1", by="alice", now_ms=NOW)
    assert board.all_asked == 1


@pytest.mark.parametrize("lease_s", [0, -1, math.inf, math.nan])
def test_a_lease_must_have_a_length(
    make_board: MakeBoard, make_task: MakeTask, lease_s: float
) -> None:
    with pytest.raises(Invalid, match="seconds"):
        rules.claim(make_board(make_task("1")), "1", by="alice", now_ms=NOW, lease_s=lease_s)


# --- ready


def test_ready_tasks_are_pending_unowned_and_unblocked(make_task: MakeTask) -> None:
    tasks = [
        make_task("1", status="completed"),
        make_task("2", blocked_by=["1"]),
        make_task("3", blocked_by=["2"]),
        make_task("4", owner="alice@crew"),
        make_task("5", status="in_progress"),
        make_task("6", blocked_by=["99"]),
        make_task("7", metadata={"_internal": True}),
        make_task("8"),
    ]
    by_id = {task.id: task for task in tasks}
    assert [task.id for task in rules.ready(by_id, team="crew")] == ["2", "8"]
    mine = rules.ready(by_id, team="crew", for_owner="alice")
    assert [task.id for task in mine] == ["2", "4", "8"]
