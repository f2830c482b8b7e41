"""The rules of tasks, one promise a test, on a view made by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bullpen.errors import Invalid, NotFound, Refused
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Task
from bullpen.store.contract import View
from bullpen.team.lookup import among, leads
from bullpen.team.tasks import lease_rules, rules

if TYPE_CHECKING:
    from unit.team.conftest import MakeBoard, MakeTask

NOW = 1_000_000


def claimed(task: Task, by: str, *, attempt: int = 1, **facts: Any) -> Task:
    return task.evolve(status="in_progress", owner=by).with_facts(attempt=attempt, **facts)


def refusal(error: pytest.ExceptionInfo[Refused]) -> str:
    return error.value.reason


# --- done


def test_the_owner_completes_a_task_and_stays_its_owner(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    task = claimed(make_task("1"), "alice", lease_until_ms=NOW)
    done = rules.done(make_board(task), "1", by="alice", attempt=1, report="It works.")
    assert (done.task.status, done.task.owner) == ("completed", "alice")
    assert done.task.facts.report == "It works."
    assert done.task.facts.lease_until_ms is None
    assert done.unblocked == ()


@pytest.mark.parametrize("owner", ["alice", "alice@crew", None])
def test_the_lead_completes_what_is_anothers_or_nobodys(
    make_board: MakeBoard, make_task: MakeTask, owner: str | None
) -> None:
    board = make_board(make_task("1", status="in_progress", owner=owner))
    assert rules.done(board, "1", by=LEAD).task.status == "completed"


def test_the_lead_may_complete_a_pending_task_that_is_nobodys(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    done = rules.done(make_board(make_task("1")), "1", by=LEAD)
    assert done.task.status == "completed"
    assert done.task.metadata is None


@pytest.mark.parametrize("owner", [None, "alice"])
def test_completing_a_pending_task_claims_it(
    make_board: MakeBoard, make_task: MakeTask, owner: str | None
) -> None:
    before = make_task("1", owner=owner).with_facts(attempt=2)
    task = rules.done(make_board(before), "1", by="alice", now_ms=NOW).task
    assert (task.status, task.owner) == ("completed", "alice")
    assert (task.facts.attempt, task.facts.claimed_ms) == (3, NOW)


@pytest.mark.parametrize(
    ("fields", "by", "reason"),
    [
        ({"owner": "bob"}, "alice", "already_claimed"),
        ({"owner": "alice"}, LEAD, "already_claimed"),
        ({"blocked_by": ["2"]}, "alice", "blocked"),
        ({"metadata": {"bullpen": {"givenUp": "too hard"}}}, "alice", "given_up"),
        ({"metadata": {"bullpen": {"needs": ["rust"]}}}, "alice", "not_capable"),
        ({}, "bob", "agent_busy"),
    ],
)
def test_a_pending_task_that_cannot_be_claimed_cannot_be_completed(
    make_board: MakeBoard, make_task: MakeTask, fields: dict[str, Any], by: str, reason: str
) -> None:
    board = make_board(make_task("1", **fields), make_task("2"), claimed(make_task("3"), "bob"))
    with pytest.raises(Refused) as error:
        rules.done(board, "1", by=by)
    assert refusal(error) == reason


def test_a_task_that_was_taken_away_is_not_claimed_again_by_its_late_result(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    with pytest.raises(Refused) as error:
        rules.done(make_board(make_task("1").with_facts(attempt=1)), "1", by="alice", attempt=1)
    assert refusal(error) == "not_claimed"


def test_the_checks_of_a_pending_task_count_for_the_attempt_that_completes_it(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    board = make_board(make_task("1").with_facts(checks=[{"name": "report", "kind": "report"}]))
    with pytest.raises(Refused) as error:
        rules.done(board, "1", by="alice")
    assert refusal(error) == "checks_missing"
    assert rules.done(board, "1", by="alice", report="It works").task.facts.report == "It works"


@pytest.mark.parametrize("owner", ["bob", None])
def test_others_cannot_complete_a_task(
    make_board: MakeBoard, make_task: MakeTask, owner: str | None
) -> None:
    with pytest.raises(Refused) as error:
        rules.done(make_board(make_task("1", status="in_progress", owner=owner)), "1", by="alice")
    assert refusal(error) == "not_owner"


def test_a_task_is_completed_once(make_board: MakeBoard, make_task: MakeTask) -> None:
    with pytest.raises(Refused) as error:
        rules.done(make_board(make_task("1", status="completed", owner="alice")), "1", by="alice")
    assert refusal(error) == "already_resolved"


def test_a_result_of_an_older_attempt_is_refused(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    task = claimed(make_task("1"), "bob", attempt=2)
    for by in ("alice", "bob", LEAD):
        with pytest.raises(Refused) as error:
            rules.done(make_board(task), "1", by=by, attempt=1)
        assert refusal(error) == "stale_attempt"
    assert rules.done(make_board(task), "1", by="bob", attempt=2).task.status == "completed"


def test_completing_a_task_that_is_not_there_names_those_there_are(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    with pytest.raises(NotFound, match="Available tasks: 1, 2"):
        rules.done(make_board(make_task("1"), make_task("2")), "77", by="alice")


CHECKS = [
    {"name": "tests", "kind": "command", "run": "pytest"},
    {"name": "summary", "kind": "report"},
]


def found(board: View, by: str = "alice", **results: bool) -> Task:
    """The task 1 with what some of its checks found."""
    task = board.task("1")
    assert task is not None
    checks = [
        check.evolve(
            at_ms=7,
            passed=results[check.name],
            detail=None if results[check.name] else "Exit code 1",
        )
        for check in task.facts.checks
        if check.name in results
    ]
    return rules.record_checks(board, "1", checks, voice="agent", by=by, attempt=task.facts.attempt)


def test_every_check_must_have_passed_in_this_attempt(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    task = claimed(make_task("1"), "alice", attempt=2, checks=CHECKS)

    def reasons(checked: Task, report: str | None = None) -> str:
        with pytest.raises(Refused) as error:
            rules.done(make_board(checked), "1", by="alice", report=report)
        assert refusal(error) == "checks_missing"
        return error.value.message

    assert "'tests', 'summary'" in reasons(task)
    assert "'tests'." in reasons(task, "All is well.")
    failed = found(make_board(task), tests=False)
    assert "'tests'." in reasons(failed, "All is well.")
    passed = found(make_board(failed), tests=True)
    assert "'summary'." in reasons(passed)
    assert "'summary'." in reasons(passed, "")
    old = claimed(rules.released(passed, None), "alice", attempt=3)
    assert "'tests'." in reasons(old, "All is well.")
    done = rules.done(make_board(passed), "1", by="alice", report="All is well.")
    assert done.task.status == "completed"


def test_a_report_check_also_passes_by_its_recorded_result(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    task = claimed(make_task("1"), "alice", checks=CHECKS[1:])
    passed = found(make_board(task), summary=True)
    assert rules.done(make_board(passed), "1", by="alice").task.status == "completed"


def test_a_check_result_without_an_attempt_does_not_count(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    task = make_task("1").with_facts(checks=[{**CHECKS[0], "passed": True}])
    with pytest.raises(Refused) as error:
        rules.done(make_board(task), "1", by=LEAD)
    assert refusal(error) == "checks_missing"


def test_unblocked_are_those_whose_last_open_blocker_it_was(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    task = claimed(make_task("1", blocks=["2", "3", "4", "5", "6", "7", "99"]), "alice")
    board = make_board(
        task,
        make_task("2", blocked_by=["1"]),
        make_task("3", blocked_by=["1", "8"]),
        make_task("4", blocked_by=["1"], status="completed"),
        make_task("5"),
        make_task("6", blocked_by=["1", "9"]),
        make_task("8"),
        make_task("9", status="completed"),
        unreadable={"7"},
    )
    assert rules.done(board, "1", by="alice").unblocked == ("2", "6")
    assert board.all_asked == 0


# --- checks


def test_a_check_result_belongs_to_the_current_attempt(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    task = claimed(make_task("1"), "alice", attempt=4, checks=CHECKS)
    task = found(make_board(task), tests=False)
    tests, summary = task.facts.checks
    assert (tests.passed, tests.detail, tests.attempt, tests.run) == (
        False,
        "Exit code 1",
        4,
        "pytest",
    )
    assert (summary.passed, summary.attempt) == (None, None)
    task = found(make_board(task), tests=True)
    assert task.facts.checks[0].detail is None
    assert task.facts.checks[0].at_ms == 7


# --- release, removal


@pytest.mark.parametrize("by", ["alice", LEAD])
def test_a_released_task_is_pending_and_nobodys(
    make_board: MakeBoard, make_task: MakeTask, by: str
) -> None:
    task = claimed(make_task("1"), "alice@crew", lease_until_ms=NOW)
    task = rules.release(make_board(task), "1", by=by, reason="too hard")
    assert (task.status, task.owner) == ("pending", None)
    assert "owner" not in task.raw
    assert task.facts.lease_until_ms is None
    assert (task.facts.attempt, task.facts.released) == (1, "too hard")


def test_a_release_without_a_reason_adds_no_facts_and_drops_an_old_reason(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    task = rules.release(make_board(make_task("1", owner="alice")), "1", by="alice")
    assert (task.status, task.owner, task.metadata) == ("pending", None, None)
    told = make_task("1", owner="alice").with_facts(released="too hard")
    assert rules.release(make_board(told), "1", by="alice").facts.released is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"status": "completed", "owner": "alice"}, "already_resolved"),
        ({}, "not_claimed"),
        ({"owner": "bob"}, "not_owner"),
        ({"status": "in_progress", "owner": "bob"}, "not_owner"),
        ({"status": "in_progress"}, "not_owner"),
    ],
)
def test_only_what_is_taken_can_be_released_by_its_owner(
    make_board: MakeBoard, make_task: MakeTask, fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Refused) as error:
        rules.release(make_board(make_task("1", **fields)), "1", by="alice")
    assert refusal(error) == reason


def test_all_unfinished_tasks_of_a_member_are_released_together(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    board = make_board(
        make_task("1", owner="alice"),
        make_task("2", owner="alice@crew", status="in_progress"),
        make_task("3", owner="alice", status="completed"),
        make_task("4", owner="bob"),
        make_task("5"),
    )
    tasks = rules.released_from(board, "alice", reason="gone")
    assert [(task.id, task.status, task.owner) for task in tasks] == [
        ("1", "pending", None),
        ("2", "pending", None),
    ]
    assert {task.facts.released for task in tasks} == {"gone"}


# --- assign


def test_an_assigned_task_stays_pending(make_board: MakeBoard, make_task: MakeTask) -> None:
    task = rules.assign(make_board(make_task("1")), "1", "alice", by="bob")
    assert (task.status, task.owner, task.metadata) == ("pending", "alice", None)


def test_assigning_a_task_to_its_owner_changes_nothing(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    task = make_task("1", owner="alice@crew")
    assert rules.assign(make_board(task), "1", "alice", by="bob") is task


@pytest.mark.parametrize("by", [LEAD, "alice"])
def test_the_lead_and_the_owner_can_assign_it_to_another(
    make_board: MakeBoard, make_task: MakeTask, by: str
) -> None:
    board = make_board(make_task("1", owner="alice"))
    assert rules.assign(board, "1", "bob", by=by).owner == "bob"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"status": "completed"}, "already_resolved"),
        ({"status": "in_progress", "owner": "alice"}, "already_claimed"),
        ({"owner": LEAD}, "not_owner"),
    ],
)
def test_what_is_finished_taken_or_anothers_cannot_be_assigned(
    make_board: MakeBoard, make_task: MakeTask, fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Refused) as error:
        rules.assign(make_board(make_task("1", **fields)), "1", "alice", by="bob")
    assert refusal(error) == reason


def test_tasks_are_assigned_to_members_only(make_board: MakeBoard, make_task: MakeTask) -> None:
    with pytest.raises(NotFound, match="'carol'"):
        rules.assign(make_board(make_task("1")), "1", "carol", by=LEAD)


# --- leases


@pytest.mark.parametrize("by", ["alice", LEAD])
def test_a_lease_is_renewed_from_now(make_board: MakeBoard, make_task: MakeTask, by: str) -> None:
    task = claimed(make_task("1"), "alice", lease_until_ms=NOW)
    task = rules.renew(make_board(task), "1", by=by, attempt=1, now_ms=NOW + 5, lease_s=1)
    assert task.facts.lease_until_ms == NOW + 1005


@pytest.mark.parametrize(
    ("fields", "attempt", "reason"),
    [
        ({"status": "completed", "owner": "alice"}, 0, "already_resolved"),
        ({"status": "in_progress", "owner": "alice"}, 1, "stale_attempt"),
        ({"owner": "alice"}, 0, "not_claimed"),
        ({"status": "in_progress", "owner": "bob"}, 0, "not_owner"),
    ],
)
def test_only_the_current_attempt_of_the_owner_is_renewed(
    make_board: MakeBoard,
    make_task: MakeTask,
    fields: dict[str, Any],
    attempt: int,
    reason: str,
) -> None:
    with pytest.raises(Refused) as error:
        rules.renew(
            make_board(make_task("1", **fields)),
            "1",
            by="alice",
            attempt=attempt,
            now_ms=NOW,
            lease_s=1,
        )
    assert refusal(error) == reason


def test_only_leases_that_are_over_expire(make_board: MakeBoard, make_task: MakeTask) -> None:
    board = make_board(
        claimed(make_task("1"), "alice", lease_until_ms=NOW),
        claimed(make_task("2"), "alice", lease_until_ms=NOW + 1),
        claimed(make_task("3"), "alice"),
        make_task("4").with_facts(lease_until_ms=NOW - 1),
    )
    tasks = lease_rules.expired(board, by="bob", now_ms=NOW)
    assert [(task.id, task.status, task.facts.released) for task in tasks] == [
        ("1", "pending", rules.LEASE_OVER)
    ]


def test_only_the_leases_that_a_watcher_judged_expire_and_no_renewed_one(
    make_board: MakeBoard, make_task: MakeTask
) -> None:
    board = make_board(
        claimed(make_task("1"), "alice", lease_until_ms=NOW - 1),
        claimed(make_task("2"), "alice", lease_until_ms=NOW - 2),
        claimed(make_task("3"), "alice", lease_until_ms=NOW + 7),
    )
    over = {"2": NOW - 2, "1": NOW - 9, "3": NOW + 7, "9": NOW}

    def expired(by: str) -> list[str]:
        return [task.id for task in lease_rules.expired(board, by=by, now_ms=NOW, over=over)]

    assert expired("bob") == ["2"], "a member cannot end a lease before its time"
    assert expired(LEAD) == ["2", "3"], "the clock was set back: the watcher knows better"
    assert lease_rules.expired(board, by=LEAD, now_ms=NOW, over={}) == []


# --- edit


def test_an_edit_changes_only_what_it_names(make_board: MakeBoard, make_task: MakeTask) -> None:
    board = make_board(make_task("1", description="old", active_form="Doing"))
    task = rules.edit(board, "1", subject="New", description=None, active_form=None)
    assert (task.subject, task.description, task.active_form) == ("New", "old", "Doing")
    task = rules.edit(board, "1", subject=None, description="", active_form="Going")
    assert (task.subject, task.description, task.active_form) == ("Task 1", "", "Going")


def test_a_subject_says_something(make_board: MakeBoard, make_task: MakeTask) -> None:
    with pytest.raises(Invalid, match="subject"):
        rules.edit(make_board(make_task("1")), "1", subject=" ", description=None, active_form=None)


# --- names


def test_the_remedy_for_an_unknown_name_stays_short() -> None:
    names = [f"agent-{number}" for number in range(200)]
    remedy = among("agent-7x", names, what="members")
    assert remedy.startswith("Did you mean 'agent-7")
    assert remedy.endswith("agent-7 and 192 more.")
    assert among("x", [], what="tasks") == "There are no tasks yet."
    assert among("zzz", ["alice"], what="members") == "Available members: alice."


def test_a_member_of_the_leads_type_leads(make_board: MakeBoard) -> None:
    board = make_board()
    chief = board.team.roster[1].evolve(name="chief", agent_type=LEAD)
    assert leads(board.team.with_member(chief), "chief")
    assert not leads(board.team, "alice")
    assert not leads(board.team, "nobody")
