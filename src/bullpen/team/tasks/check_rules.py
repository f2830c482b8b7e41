"""Rules for checks: which are valid, what they found, and whether a task is done. Pure.

A task with checks is done when each check passed in the current attempt, or when a person vouched
for it. A task that another program marked completed without either is not done, and the tasks that
depend on it stay blocked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from bullpen.errors import Invalid, Refused
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Check, Task
from bullpen.team.lookup import Actor

UNPROVEN = "completed without its checks"
QUEUED = "completed, waits to be merged"
CAME_BACK = "came back from the merge queue"
GIVEN_UP = "given up"
"""Shown to people and models instead of, or in addition to, the status of such tasks."""

CHECKS_MAX = 32
"""The most checks a task can have."""

_TEXT_MAX = 10_000


def stated(checks: Sequence[Check]) -> list[dict[str, Any]]:
    """Return the checks as a new task stores them, without results.

    Raises:
        Invalid: a check lacks a required field, or two have the same name.
    """
    if len(checks) > CHECKS_MAX:
        raise Invalid(
            f"A task cannot have {len(checks)} checks. The limit is {CHECKS_MAX}.",
            remedy="Combine several checks in one command.",
        )
    names = [check.name for check in checks]
    for check in checks:
        needs = {"command": check.run, "file": check.path, "review": check.by}.get(check.kind, "-")
        texts = (check.name, check.run, check.path, check.ref, check.by, check.model, check.rubric)
        usable = all(text is None or _usable(text) for text in texts)
        if not (needs or "").strip() or not usable or names.count(check.name) > 1:
            raise Invalid(
                f"Check {check.name!r} of kind {check.kind!r} is not valid.",
                remedy="Give every check a different name. A command also needs 'run', a file "
                "needs 'path', a review needs 'by': the driver of the reviewer.",
            )
    return [check.stated.raw for check in checks]


def _usable(text: str) -> bool:
    return bool(text.strip()) and "\0" not in text and len(text) <= _TEXT_MAX


def missing(task: Task, *, report: str | None = None) -> list[str]:
    """Return the names of the checks that did not pass in this attempt, counting this report."""
    facts = task.facts
    reported = bool((report or facts.report or "").strip())
    return [
        check.name
        for check in facts.checks
        if not (check.passed is True and check.attempt == facts.attempt)
        and not (check.kind == "report" and reported)
    ]


def is_unproven(task: Task) -> bool:
    """Return whether it is marked completed, but neither its checks nor a person prove it."""
    if task.status != "completed" or not _states_checks(task):
        return False
    return task.facts.forced is None and bool(missing(task))


def _states_checks(task: Task) -> bool:
    # Checked before the facts are parsed: few tasks have them, and lists are long.
    own = (task.metadata or {}).get("bullpen")
    return isinstance(own, dict) and bool(own.get("checks"))


def is_unmerged(task: Task) -> bool:
    """Return whether its work was handed in but is not on the target."""
    own = (task.metadata or {}).get("bullpen")
    handed_in = own.get("merge") if isinstance(own, dict) else None
    if handed_in is None:
        return False
    return not (isinstance(handed_in, dict) and handed_in.get("state") == "merged")


def is_queued(task: Task) -> bool:
    """Return whether its owner completed it, but its work is not on the target yet."""
    return task.status == "completed" and not is_unproven(task) and is_unmerged(task)


def said_status(task: Task) -> str:
    """Return the status of a task in words, including work that is queued or came back."""
    own = (task.metadata or {}).get("bullpen")
    if task.status == "unknown":
        return f"unknown ({task.raw['status']})"
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
    """Return whether it is completed, proven if it has checks, and its work is on the target."""
    return task.status == "completed" and not is_unproven(task) and not is_unmerged(task)


Landing = Literal["open", "queued", "changed", "vouched", "unchanged"]
"""What became of the work of a task, where work is merged: not completed yet, waits to be merged,
is on the target, called done by a person, or completed although nothing was changed.
"""


def landing(task: Task) -> Landing:
    """Return what became of the work of a task, in a team whose work is merged.

    Ticks, issues and summaries read it: what was completed without a change is nobody's success
    until a person has read why.
    """
    if not is_done(task):
        return "queued" if is_queued(task) else "open"
    work = task.facts.forge
    if task.facts.merge is not None or (work is not None and work.outcome == "merged"):
        return "changed"
    return "unchanged" if task.facts.forced is None else "vouched"


def with_results(task: Task, found: Iterable[Check]) -> Task:
    """Return the task with the check results of its current attempt.

    A result is ignored if its check was changed in the meantime.
    """
    facts = task.facts
    results = {check.name: check for check in found}
    rows = []
    for check in facts.checks:
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
    """Return the task with other checks.

    Raises:
        Refused: checks_fixed, for agents other than the lead and for the owner of the task: nobody
            may weaken the checks of their own work. A person always may.
    """
    if voice != "human" and (not who.lead or who.owns(task)):
        raise Refused(
            f"{who.name!r} cannot change the checks of task {task.id!r}.",
            reason="checks_fixed",
            remedy="Ask the lead, or a person if the lead owns the task.",
        )
    # If a task had checks, an empty list records that they were removed.
    rows = stated(checks)
    return task.with_facts(checks=rows) if rows or task.facts.has("checks") else task


def refuse_deletion(task: Task, who: Actor, *, voice: Voice) -> None:
    """Refuse to let an agent remove checks by deleting their task.

    Only started tasks count: a check that nobody had to pass yet can go with its task.

    Raises:
        Refused: checks_fixed.
    """
    if voice == "human" or not _states_checks(task) or task.facts.attempt == 0 or is_done(task):
        return
    if not who.lead or who.owns(task):
        raise Refused(
            f"{who.name!r} cannot delete task {task.id!r}: it was started and has checks.",
            reason="checks_fixed",
            remedy="Release it, then ask the lead, or a person if the lead owns the task.",
        )


def refuse_force(reason: str, *, voice: Voice) -> None:
    """Refuse to complete a task without its checks unless a person gives a reason.

    Raises:
        Refused: not_a_person.
        Invalid: there is no reason.
    """
    if voice != "human":
        raise Refused(
            "Only a person can complete a task without its checks.",
            reason="not_a_person",
            remedy="Make the checks pass, or say why they cannot.",
        )
    if not reason.strip():
        raise Invalid(
            "Completing a task without its checks needs a reason.",
            remedy="Say why the checks do not have to pass.",
        )
