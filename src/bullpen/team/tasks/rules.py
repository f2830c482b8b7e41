"""Rules for tasks: what may happen to a task and how it changes.

Pure: each rule reads a view of the team and returns new records, or raises an error to refuse.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bullpen.errors import Invalid, Refused
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Check, Forced, Task
from bullpen.store.contract import View
from bullpen.team.budget.rules import OverBudget, of_task
from bullpen.team.lead_rules import check_commit, is_open
from bullpen.team.lookup import (
    Actor,
    Find,
    find,
    forgiving,
    listed,
    member_of,
    owner_of,
    task_of,
)
from bullpen.team.tasks import check_rules
from bullpen.team.tasks.fit_rules import refuse_incapable, refuse_planning, refuse_unfit
from bullpen.team.tasks.merge_rules import HandIn, queued

LEASE_OVER = "lease over"
"""Why a task was released whose owner did not renew its lease."""


@dataclass(frozen=True, slots=True)
class Done:
    """A completed task, and the tasks whose last open dependency it was."""

    task: Task
    unblocked: tuple[str, ...]


def blocker_of(view: View, task_id: str) -> Task:
    """Return the task that others are to depend on. Raises Refused (unknown_task)."""
    task = find(view, task_id)
    if task is None:
        raise Refused(
            f"No task can depend on {task_id!r}: it does not exist.",
            reason="unknown_task",
            remedy="Create it first, or correct the id.",
        )
    return task


def check_subject(subject: str) -> None:
    """Refuse an empty subject."""
    if not subject.strip():
        raise Invalid("The task has no subject.", remedy="Say in a few words what to do.")


def check_metadata(metadata: Mapping[str, Any]) -> None:
    """Refuse reserved metadata keys."""
    own = [key for key in ("bullpen", "_internal") if key in metadata]
    if own:
        raise Invalid(
            f"A task cannot have metadata with key {own[0]!r}: that key is reserved.",
            remedy="Use another key.",
        )


def edit(
    view: View,
    task_id: str,
    *,
    subject: str | None,
    description: str | None,
    active_form: str | None,
    metadata: Mapping[str, Any] | None = None,
) -> Task:
    """Return the task with changed texts. None leaves a field as it is.

    Metadata is merged into the existing metadata; a key with None is removed.
    """
    task = task_of(view, task_id)
    if subject is not None:
        check_subject(subject)
    wanted: dict[str, Any] = {
        "subject": subject,
        "description": description,
        "active_form": active_form,
    }
    if metadata is not None:
        check_metadata(metadata)
        merged = {**(task.metadata or {}), **metadata}
        wanted["metadata"] = {key: value for key, value in merged.items() if value is not None}
    try:
        return task.evolve(**{name: value for name, value in wanted.items() if value is not None})
    except ValueError as error:
        raise Invalid(
            f"The change to task #{task_id} cannot be stored: {error}.",
            remedy="Metadata must be JSON without deep nesting.",
        ) from None


def open_blockers(task: Task, find_blocker: Find) -> list[str]:
    """Return the ids that still block a task: not done, missing or unreadable."""
    blockers = ((blocker, find_blocker(blocker)) for blocker in task.blocked_by)
    return [
        blocker for blocker, found in blockers if found is None or not check_rules.is_done(found)
    ]


def ready(tasks: Mapping[str, Task], *, team: str, for_owner: str | None = None) -> Iterator[Task]:
    """Return the tasks that can be claimed now: pending, without an owner, not blocked.

    With `for_owner`, include those assigned to that member.
    """
    return (
        task
        for task in tasks.values()
        if task.status == "pending"
        and not task.is_internal
        and task.facts.given_up is None
        and owner_of(task, team) in (None, for_owner)
        and not open_blockers(task, tasks.get)
    )


def claim(
    view: View,
    task_id: str,
    *,
    by: str,
    also: bool = False,
    now_ms: int,
    lease_s: float | None = None,
) -> Task:
    """Return the task in progress, owned by `by`, as a new attempt.

    Raises:
        Refused: task_not_found, already_resolved, already_claimed, given_up, not_capable, blocked,
            a used-up budget of the task, or agent_busy, checked in this order. `also` skips
            agent_busy.
        NotFound: `by` is not a member.
    """
    lease = lease_until(now_ms, lease_s)
    member_of(view.team, by)
    who = Actor.of(view.team, by)
    task = find(view, task_id)
    if task is None:
        raise Refused(
            f"Team {view.team.name!r} has no task {task_id!r}.",
            reason="task_not_found",
            remedy="List the tasks to see their ids.",
        )
    _refuse_taken(task, who)
    refuse_unfit(view.team, task, by)
    waits_for = open_blockers(task, forgiving(view))
    if waits_for:
        raise Refused(
            f"Task {task_id!r} is blocked by {_quoted(waits_for)}.",
            reason="blocked",
            remedy="Claim it when they are completed, or take another task.",
        )
    reached = of_task(view.team, task)
    if reached is not None:
        raise OverBudget(reached)
    if not also:
        _refuse_busy(view.tasks().values(), who)
    attempt = task.facts.attempt + 1
    started = task.evolve(status="in_progress", owner=by)
    return started.with_facts(
        attempt=attempt, claimed_ms=now_ms, lease_until_ms=lease, report=None, forced=None
    )


def _refuse_taken(task: Task, who: Actor) -> None:
    if task.status == "completed":
        raise resolved(task)
    owner = owner_of(task, who.team)
    if task.status == "in_progress":
        taken = f"is in progress, owned by {owner!r}" if owner else "is in progress"
    elif owner is not None and not who.owns(task):
        taken = f"is assigned to {owner!r}"
    else:
        return
    raise Refused(
        f"Task {task.id!r} {taken}.",
        reason="already_claimed",
        remedy="Take another task, or ask its owner or the lead to release it.",
    )


def _refuse_busy(tasks: Iterable[Task], who: Actor) -> None:
    busy_with = [
        task.id
        for task in tasks
        if task.status == "in_progress" and who.owns(task) and not task.is_internal
    ]
    if busy_with:
        raise Refused(
            f"{who.name!r} is working on {_quoted(busy_with)}.",
            reason="agent_busy",
            remedy="Complete or release that task first, or claim with 'also'.",
        )


def resolved(task: Task) -> Refused:
    """Return the refusal to change a completed task."""
    queued = check_rules.is_queued(task)
    return Refused(
        f"Task {task.id!r} is completed{' and waits to be merged' if queued else ''}.",
        reason="already_resolved",
        remedy="Do nothing: the work is done.",
    )


def unresolved(view: View, task_id: str) -> Task:
    """Return the task with that id. Raises Refused (already_resolved) if it is completed."""
    task = task_of(view, task_id)
    if task.status == "completed":
        raise resolved(task)
    return task


def _not_owner(task: Task, who: Actor) -> Refused:
    owner = owner_of(task, who.team)
    return Refused(
        f"Task {task.id!r} belongs to {owner!r}, not to {who.name!r}."
        if owner
        else f"Task {task.id!r} has no owner, so only the lead can do this.",
        reason="not_owner",
        remedy="Ask its owner or the lead.",
    )


def refuse_others(task: Task, who: Actor) -> None:
    """Refuse everybody but the owner of a task and the lead. Raises Refused (not_owner)."""
    if not (who.lead or who.owns(task)):
        raise _not_owner(task, who)


def provable(
    view: View,
    task_id: str,
    *,
    by: str,
    voice: Voice = "agent",
    attempt: int | None = None,
    now_ms: int = 0,
) -> Task:
    """Return the task if `by` could complete it now, provided its checks pass.

    A pending task is returned as claimed by `by`; `attempt` is then the one that the claim makes.
    The lead may complete others' tasks, and pending tasks without an owner unclaimed.

    Raises:
        Refused: plan_mode, already_resolved, stale_attempt, not_claimed for a task that was taken
            away from `by`, anything `claim` refuses, or not_owner, checked in this order.
    """
    refuse_planning(view.team, by, voice)
    who = Actor.of(view.team, by)
    task = task_of(view, task_id)
    if check_rules.is_done(task) or check_rules.is_queued(task):
        raise resolved(task)
    if task.status == "pending" and not (who.lead and not task.owner):
        if attempt == task.facts.attempt:
            raise not_claimed(task)
        task = claim(view, task_id, by=by, now_ms=now_ms)
    if attempt is not None:
        _refuse_stale(task, attempt)
    refuse_others(task, who)
    return task


def done(
    view: View,
    task_id: str,
    *,
    by: str,
    voice: Voice = "agent",
    attempt: int | None = None,
    report: str | None = None,
    found: Sequence[Check] = (),
    work: HandIn | None = None,
    now_ms: int = 0,
) -> Done:
    """Return the completed task, and what it unblocks. `found` is what its checks just found.

    With `work`, the task is done only when the work is merged; until then it unblocks nothing.

    Raises:
        Refused: anything `provable` refuses, or checks_missing.
    """
    task = provable(view, task_id, by=by, voice=voice, attempt=attempt, now_ms=now_ms)
    task = check_rules.with_results(task, found)
    _refuse_unproven(task, report)
    if work is not None:
        task = queued(view.tasks().values(), task, work, by=by, now_ms=now_ms)
    elif task.facts.has("merge"):
        # The returned work is no longer needed: there is nothing left to merge.
        task = task.with_facts(merge=None)
    return _done(view, task, report)


def forced(
    view: View, task_id: str, *, by: str, voice: Voice, reason: str, report: str | None, now_ms: int
) -> Done:
    """Return the task completed without its checks by a person, and what it unblocks.

    Raises:
        Refused: anything `provable` refuses, or not_a_person.
    """
    task = provable(view, task_id, by=by, voice=voice, now_ms=now_ms).with_facts(merge=None)
    check_rules.refuse_force(reason, voice=voice)
    word = Forced.new(by=by, reason=reason, at_ms=now_ms)
    return _done(view, task.with_facts(forced=word.raw), report)


def _done(view: View, task: Task, report: str | None) -> Done:
    completed = task.evolve(status="completed")
    if report is not None:
        completed = completed.with_facts(report=report)
    unblocked = unblocked_by(view, completed) if check_rules.is_done(completed) else ()
    return Done(_without_lease(completed), unblocked)


def _refuse_stale(task: Task, attempt: int) -> None:
    if attempt != task.facts.attempt:
        raise Refused(
            f"Task {task.id!r} is at attempt {task.facts.attempt}, not attempt {attempt}.",
            reason="stale_attempt",
            remedy="Stop working on it: it was released and claimed again.",
        )


def not_claimed(task: Task) -> Refused:
    """Return the refusal to act on a task that nobody has claimed."""
    return Refused(
        f"Task {task.id!r} is pending: nobody works on it.",
        reason="not_claimed",
        remedy="Claim it first.",
    )


def _refuse_unproven(task: Task, report: str | None) -> None:
    missing = check_rules.missing(task, report=report)
    if missing:
        raise Refused(
            f"Task {task.id!r} has checks that did not pass in this attempt: {_quoted(missing)}.",
            reason="checks_missing",
            remedy="Run the checks and make them pass. Give a report with 'done'.",
        )


def _without_lease(task: Task) -> Task:
    return task if task.facts.lease_until_ms is None else task.with_facts(lease_until_ms=None)


def unblocked_by(view: View, completed: Task) -> tuple[str, ...]:
    """Return the unfinished tasks whose last open dependency this was."""
    find_readable = forgiving(view)

    def as_it_will_be(task_id: str) -> Task | None:
        return completed if task_id == completed.id else find_readable(task_id)

    waiting = ((task_id, find_readable(task_id)) for task_id in completed.blocks)
    return tuple(
        task_id
        for task_id, task in waiting
        if task is not None
        and task.status != "completed"
        and completed.id in task.blocked_by
        and not open_blockers(task, as_it_will_be)
    )


def release(view: View, task_id: str, *, by: str, reason: str | None = None) -> Task:
    """Return the task as pending without an owner.

    Raises:
        Refused: already_resolved, not_claimed, or not_owner for everybody but its owner and the
            lead.
    """
    task = task_of(view, task_id)
    if check_rules.is_done(task) or check_rules.is_queued(task):
        raise resolved(task)
    if task.status == "pending" and not task.owner:
        raise not_claimed(task)
    if not is_open(view.team, "task.release"):
        refuse_others(task, Actor.of(view.team, by))
    return released(task, reason)


def released(task: Task, reason: str | None) -> Task:
    """Return the task after a release, whoever asked for it."""
    freed = _without_lease(task.evolve(status="pending", owner=None))
    # A task without Bullpen facts stays without them.
    if reason is None and freed.facts.released is None:
        return freed
    return freed.with_facts(released=reason)


def released_from(view: View, name: str, *, reason: str) -> list[Task]:
    """Return all unfinished tasks of a member, released."""
    return [
        released(task, reason)
        for task in view.tasks().values()
        if task.status in ("pending", "in_progress") and owner_of(task, view.team.name) == name
    ]


def assign(view: View, task_id: str, to: str, *, by: str) -> Task:
    """Return the pending task with another owner.

    Raises:
        Refused: already_resolved; already_claimed if it is in progress; not_owner if it is
            another's and `by` is not the lead; not_lead if it was given up; not_capable.
        NotFound: `to` is not a member.
    """
    member_of(view.team, to)
    task = unresolved(view, task_id)
    owner = owner_of(task, view.team.name)
    if task.status == "in_progress":
        raise Refused(
            f"Task {task_id!r} is in progress, owned by {owner!r}.",
            reason="already_claimed",
            remedy="Nothing to do: it is theirs." if owner == to else "Release it first.",
        )
    if owner not in (None, by, to) and not is_open(view.team, "task.release"):
        refuse_others(task, Actor.of(view.team, by))
    if task.facts.given_up is not None:
        check_commit(view.team, "task.retry", by)
    refuse_incapable(view.team, task, to)
    # Assigning a task that was given up means trying it again.
    again = task if task.facts.given_up is None else task.with_facts(given_up=None)
    return again if owner == to else again.evolve(owner=to)


def lease_until(now_ms: int, lease_s: float | None) -> int | None:
    """Return when a lease that starts now expires."""
    if lease_s is None:
        return None
    if not (math.isfinite(lease_s) and lease_s > 0):
        raise Invalid(
            f"{lease_s} seconds is not a valid lease or deadline.",
            remedy="Use a number of seconds above 0.",
        )
    return now_ms + round(lease_s * 1000)


def renew(view: View, task_id: str, *, by: str, attempt: int, now_ms: int, lease_s: float) -> Task:
    """Return the task with a longer lease.

    Raises:
        Refused: already_resolved, stale_attempt, not_claimed or not_owner.
    """
    lease = lease_until(now_ms, lease_s)
    who = Actor.of(view.team, by)
    task = unresolved(view, task_id)
    _refuse_stale(task, attempt)
    if task.status == "pending":
        raise not_claimed(task)
    refuse_others(task, who)
    return task.with_facts(lease_until_ms=lease)


def restate(view: View, task_id: str, checks: Sequence[Check], *, by: str, voice: Voice) -> Task:
    """Return the task with other checks.

    Raises:
        Refused: already_resolved, or checks_fixed for its owner and all agents except the lead.
    """
    task = unresolved(view, task_id)
    return check_rules.restated(task, checks, Actor.of(view.team, by), voice=voice)


def record_checks(
    view: View, task_id: str, found: Sequence[Check], *, by: str, voice: Voice, attempt: int
) -> Task:
    """Return the task with the results of its checks in this attempt.

    Raises:
        Refused: plan_mode, already_resolved, stale_attempt, or not_owner for everybody but its
            owner and the lead.
    """
    refuse_planning(view.team, by, voice)
    who = Actor.of(view.team, by)
    task = task_of(view, task_id)
    if check_rules.is_done(task):
        raise resolved(task)
    _refuse_stale(task, attempt)
    refuse_others(task, who)
    return check_rules.with_results(task, found)


def _quoted(ids: Iterable[str]) -> str:
    return listed(map(repr, ids))
