"""What proves a task done: which checks can be stated, what was found, and what that means. Pure.

A task that states checks is done when each has passed in its current attempt, or when a person
gave their word instead. One that another program calls completed without either is not done: what
waits for it goes on waiting.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bullpen.errors import Invalid, Refused
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Check, Task
from bullpen.team.lookup import Actor

UNPROVEN = "completed without its checks"
QUEUED = "completed, waits to be merged"
CAME_BACK = "came back from the merge queue"
GIVEN_UP = "given up"
"""What people and models read of such tasks in place of, or with, their status."""

CHECKS_MAX = 32
"""So many checks a task can have."""

_TEXT_MAX = 10_000


def stated(checks: Sequence[Check]) -> list[dict[str, Any]]:
    """The checks as a task keeps them, without any result: there was no attempt yet.

    Raises:
        Invalid: one lacks what it needs, or two have the same name.
    """
    if len(checks) > CHECKS_MAX:
        raise Invalid(
            f"A task cannot have {len(checks)} checks, only {CHECKS_MAX}.",
            remedy="Let one command look at several things.",
        )
    names = [check.name for check in checks]
    for check in checks:
        needs = {"command": check.run, "file": check.path, "report": "-", "commit": "-"}[check.kind]
        texts = (check.name, check.run, check.path, check.ref)
        usable = all(text is None or _usable(text) for text in texts)
        if not (needs or "").strip() or not usable or names.count(check.name) > 1:
            raise Invalid(
                f"The check {check.name!r} of kind {check.kind!r} cannot be one.",
                remedy="A check needs a name of its own; a command needs 'run', a file 'path'.",
            )
    return [check.stated.raw for check in checks]


def _usable(text: str) -> bool:
    return bool(text.strip()) and "\0" not in text and len(text) <= _TEXT_MAX


def missing(task: Task, *, report: str | None = None) -> list[str]:
    """The names of the checks that did not pass in this attempt; a report given now counts."""
    facts = task.facts
    reported = bool((report or facts.report or "").strip())
    return [
        check.name
        for check in facts.all_checks
        if not (check.passed is True and check.attempt == facts.attempt)
        and not (check.kind == "report" and reported)
    ]


def is_unproven(task: Task) -> bool:
    """Whether it is called completed, but neither its checks nor anybody's word prove it."""
    if task.status != "completed" or not _states_checks(task):
        return False
    return task.facts.word is None and bool(missing(task))


def _states_checks(task: Task) -> bool:
    # Looked at before the facts are read: nearly no task has any, and lists are long.
    own = (task.metadata or {}).get("bullpen")
    return isinstance(own, dict) and bool(own.get("checks"))


def is_unmerged(task: Task) -> bool:
    """Whether work was handed in with it that is not on the target."""
    own = (task.metadata or {}).get("bullpen")
    handed_in = own.get("merge") if isinstance(own, dict) else None
    if handed_in is None:
        return False
    return not (isinstance(handed_in, dict) and handed_in.get("state") == "merged")


def is_queued(task: Task) -> bool:
    """Whether its owner is through with it, but its work is not on the target yet."""
    return task.status == "completed" and not is_unproven(task) and is_unmerged(task)


def said_status(task: Task) -> str:
    """The status of a task in words, with what it hides: work that waits, or that came back."""
    own = (task.metadata or {}).get("bullpen")
    if not isinstance(own, dict):
        return task.status
    if task.status == "completed":
        return UNPROVEN if is_unproven(task) else QUEUED if is_unmerged(task) else task.status
    merge = own.get("merge")
    if task.status == "pending" and own.get("givenUp") is not None:
        return GIVEN_UP
    if isinstance(merge, dict) and merge.get("state") == "returned":
        return f"{task.status}, {CAME_BACK}"
    return task.status


def is_done(task: Task) -> bool:
    """Whether it is completed, proven if it has to be, and its work is on the target."""
    return task.status == "completed" and not is_unproven(task) and not is_unmerged(task)


def with_results(task: Task, found: Iterable[Check]) -> Task:
    """The task with what was found in its current attempt.

    A result of a check that was stated otherwise meanwhile is no result.
    """
    facts = task.facts
    results = {check.name: check for check in found}
    rows = []
    for check in facts.all_checks:
        result = results.get(check.name)
        if result is not None and result.stated == check.stated:
            check = check.evolve(
                passed=result.passed is True,
                detail=result.detail,
                attempt=facts.attempt,
                at_ms=result.at_ms,
            )
        rows.append(check.raw)
    return task.with_facts(checks=rows) if rows else task


def restated(task: Task, checks: Sequence[Check], who: Actor, *, voice: Voice) -> Task:
    """The task with other checks.

    Raises:
        Refused: checks_fixed, for an agent that does not lead, and for the owner of the task:
            nobody weakens the proof of their own work. A person may always.
    """
    if voice != "human" and (not who.lead or who.owns(task)):
        raise Refused(
            f"{who.name!r} cannot change what proves task {task.id!r} done.",
            reason="checks_fixed",
            remedy="Ask the lead, or a person if the lead owns it.",
        )
    # Once there were some, an empty list says that somebody took them away.
    rows = stated(checks)
    return task.with_facts(checks=rows) if rows or task.facts.checks is not None else task


def refuse_deletion(task: Task, who: Actor, *, voice: Voice) -> None:
    """Refuse that an agent gets rid of checks by deleting the task they belong to.

    A task that nobody ever worked on can go, whoever added it.

    Raises:
        Refused: checks_fixed.
    """
    if voice == "human" or not _states_checks(task) or task.facts.attempt == 0 or is_done(task):
        return
    if not who.lead or who.owns(task):
        raise Refused(
            f"{who.name!r} cannot delete task {task.id!r}: it was begun and has checks.",
            reason="checks_fixed",
            remedy="Give it back, and ask the lead, or a person if the lead owns it.",
        )


def refuse_force(reason: str, *, voice: Voice) -> None:
    """Refuse a word that is no person's, or gives no reason.

    Raises:
        Refused: not_a_person.
        Invalid: there is no reason.
    """
    if voice != "human":
        raise Refused(
            "Only a person can complete a task without its checks.",
            reason="not_a_person",
            remedy="Make the checks pass, or say what keeps them from passing.",
        )
    if not reason.strip():
        raise Invalid(
            "Completing a task without its checks needs a reason.",
            remedy="Say why they need not pass.",
        )
