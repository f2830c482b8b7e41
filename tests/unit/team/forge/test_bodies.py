"""Titles, branches, pull requests, comments and labels, drafted by code."""

from __future__ import annotations

from bullpen.protocol.task import Check
from bullpen.team.forge.bodies import (
    LABELS,
    Made,
    answer_body,
    branch_name,
    labels_for,
    pull_body,
    pull_title,
    state_comment,
    state_of,
)
from bullpen.team.forge.markers import Mark

from .forge_teams import REPOSITORY, handed_in

KEY = b"key of this home"
MARK = Mark(REPOSITORY, "crew", "1", "pull", 2)


def lines(body: str) -> list[str]:
    return [line for line in body.split("\n") if line][:-1]


def test_a_pull_request_says_what_was_asked_tested_reported_by_whom_and_at_what_cost() -> None:
    passed = Check.new(name="tests", kind="command", run="pytest -q", passed=True, attempt=1)
    old = Check.new(name="lint", kind="command", run="ruff check", passed=True, attempt=0)
    task = handed_in().with_facts(checks=[passed, old], report="Fixed the parser.\nSee test_a.")
    body = pull_body(task, Made(("kim",), usd=0.5, tokens=1200), MARK, KEY)
    assert lines(body) == [
        "Task 1 of team crew.",
        "Closes #7",
        "### Checks",
        "- **tests** passed",
        "```text",
        "pytest -q",
        "```",
        "- **lint** did not pass",
        "```text",
        "ruff check",
        "```",
        "### Report",
        "> Fixed the parser.",
        "> See test\\_a.",
        "### Made by",
        "kim, bob, in 1 attempt, 1200 tokens, 0.50 USD.",
    ]


def test_a_subject_that_the_title_cannot_show_as_it_is_stands_in_the_text() -> None:
    long = "Fix " + "x" * 300
    for subject, shown in ((long, f"> {long}"), ("Fix #1", "> Fix \\#\u200b1")):
        body = pull_body(handed_in().evolve(subject=subject), Made(), MARK, KEY)
        assert shown in lines(body)


def test_work_without_an_issue_closes_none() -> None:
    body = pull_body(handed_in(issue=None), Made(), MARK, KEY)
    assert "Closes" not in body
    assert "No checks were asked for." in body


def test_a_body_that_is_too_long_loses_its_longest_part() -> None:
    checks = [Check.new(name=f"c{n}", kind="command", run="漢" * 600).raw for n in range(32)]
    task = handed_in().with_facts(checks=checks, report="*" * 40_000)
    body = pull_body(task, Made(), MARK, KEY)
    assert "Some of it is left out: it is too long." in body
    assert "Closes #7" in body
    assert len(body.encode()) <= 65_536


def test_a_branch_is_named_after_its_ids() -> None:
    assert branch_name("crew", "12") == "bullpen/crew/task-12"
    assert branch_name("a/b..c", "x.lock").startswith("bullpen/a-b-c-")
    assert branch_name("a.b", "1") != branch_name("a-b", "1")


def test_a_title_is_the_subject_and_never_makes_a_draft() -> None:
    assert pull_title(handed_in()) == "Fix it"
    assert pull_title(handed_in().evolve(subject="[WIP] Fix it")) == "Task 1: [WIP] Fix it"
    assert pull_title(handed_in().evolve(subject="draft: x")) == "Task 1: draft: x"
    assert pull_title(handed_in().evolve(subject="Fixes #1 by @ann")) == (
        "Fixes #\u200b1 by @\u200bann"
    )


def test_an_answer_is_quoted_under_the_name_of_its_agent() -> None:
    body = answer_body("Done in\na.py", by="bob", mark=MARK, key=KEY)
    assert lines(body) == ["Agent bob answers:", "> Done in", "> a.py"]


def test_an_issue_shows_one_state_at_a_time() -> None:
    task = handed_in()
    merge = task.facts.merge
    assert merge is not None
    seen = [
        state_of(task.evolve(status="pending").with_facts(forge=handed_in(rounds=0).facts.forge)),
        state_of(task.evolve(status="in_progress")),
        state_of(task),
        state_of(handed_in(person="it moved")),
        state_of(handed_in(outcome="merged")),
        state_of(handed_in(outcome="issue_closed")),
        state_of(task.evolve(status="pending").with_facts(given_up="too hard")),
    ]
    assert seen == [
        "waiting", "working", "review", "person", "merged", "given_up", "given_up"
    ]  # fmt: skip
    asked = [{"number": 1, "kind": "comment", "heard": "x"}]
    assert state_of(handed_in(rounds=1, asked=asked).evolve(status="pending")) == "returned"
    add, remove = labels_for("review")
    assert add == ("bullpen: in review",)
    assert {*add, *remove} == set(LABELS.values())
    assert add[0] not in remove


def test_the_comment_on_an_issue_says_where_its_work_is() -> None:
    assert lines(state_comment(handed_in(), MARK, KEY)) == [
        "The work is done and waits for review. It is task 1 of team crew.",
        "Pull request: #12",
    ]
    held = state_comment(handed_in(person="others pushed to its branch"), MARK, KEY)
    assert "> others pushed to its branch" in held
