"""What may happen to a task, and what it is afterwards.

Pure: each rule looks at a view of the team and returns new records, or raises to refuse.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bullpen.errors import Invalid, Refused
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Check, Forced, Task
from bullpen.store.base import View
from bullpen.team import check_rules
from bullpen.team.budget_rules import OverBudget, of_task
from bullpen.team.fit_rules import refuse_incapable, refuse_unfit
from bullpen.team.lookup import (
    Actor,
    Find,
    find,
    forgiving,
    leads,
    member_of,
    owner_of,
    task_of,
)
from bullpen.team.merge_rules import HandIn, queued

LEASE_OVER = "lease over"
"""Why a task was released whose owner did not renew its lease."""


@dataclass(frozen=True, slots=True)
class Done:
    """A completed task, and the tasks whose last open blocker it was."""

    task: Task
    unblocked: tuple[str, ...]


def unknown_task(task_id: str) -> Refused:
    """The refusal to wait for a task that does not exist."""
    return Refused(
        f"No task can wait for {task_id!r}: there is no such task.",
        reason="unknown_task",
        remedy="Create it first, or correct the id.",
    )


def check_subject(subject: str) -> None:
    """Refuse a subject that says nothing."""
    if not subject.strip():
        raise Invalid("A task needs a subject.", remedy="Say in a few words what is to be done.")


def check_metadata(metadata: Mapping[str, Any]) -> None:
    """Refuse metadata under keys that have a meaning of their own."""
    own = [key for key in ("bullpen", "_internal") if key in metadata]
    if own:
        raise Invalid(
            f"A task's metadata cannot be given under {own[0]!r}: that key has its own meaning.",
            remedy="Choose another key.",
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
    """The task with other words; what is None stays as it is.

    Metadata is added to what there is; a key with None is removed.
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
            f"Task #{task_id} cannot be stored so: {error}.",
            remedy="Metadata must be JSON and must not nest deeply.",
        ) from None


def open_blockers(task: Task, find_blocker: Find) -> list[str]:
    """The ids for which a task still waits: not done, missing or not to be read."""
    blockers = ((blocker, find_blocker(blocker)) for blocker in task.blocked_by)
    return [
        blocker for blocker, found in blockers if found is None or not check_rules.is_done(found)
    ]


def ready(tasks: Mapping[str, Task], *, team: str, for_owner: str | None = None) -> Iterator[Task]:
    """The tasks that can be claimed now: pending, nobody's, nothing to wait for.

    With `for_owner` also those that are assigned to that member already.
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
    """The task in progress, owned by `by`, one attempt further.

    Raises:
        Refused: task_not_found, already_resolved, already_claimed, given_up, not_capable, blocked,
            a budget of it that is used up, or agent_busy, looked for in this order. `also` lets the
            owner of another task in progress pass.
        NotFound: `by` is no member.
    """
    lease = lease_until(now_ms, lease_s)
    member_of(view.team, by)
    who = Actor.of(view.team, by)
    task = find(view, task_id)
    if task is None:
        raise Refused(
            f"There is no task {task_id!r} in team {view.team.name!r}.",
            reason="task_not_found",
            remedy="List the tasks to see which there are.",
        )
    _refuse_taken(task, who)
    refuse_unfit(view.team, task, by)
    waits_for = open_blockers(task, forgiving(view))
    if waits_for:
        raise Refused(
            f"Task {task_id!r} waits for {_listed(waits_for)}.",
            reason="blocked",
            remedy="Claim it when these are completed, or take another task.",
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
            f"{who.name!r} is busy with {_listed(busy_with)}.",
            reason="agent_busy",
            remedy="Complete or release that first, or claim with 'also'.",
        )


def resolved(task: Task) -> Refused:
    """The refusal to touch a task that is completed."""
    queued = check_rules.is_queued(task)
    return Refused(
        f"Task {task.id!r} is completed{' and waits to be merged' if queued else ''}.",
        reason="already_resolved",
        remedy="Nothing is left to do on it.",
    )


def _not_owner(task: Task, who: Actor) -> Refused:
    owner = owner_of(task, who.team)
    return Refused(
        f"Task {task.id!r} belongs to {owner!r}, not to {who.name!r}."
        if owner
        else f"Task {task.id!r} belongs to nobody, so only the lead can do this.",
        reason="not_owner",
        remedy="Its owner or the lead can do this.",
    )


def provable(view: View, task_id: str, *, by: str, attempt: int | None = None) -> Task:
    """The task that `by` could complete now, if its checks pass.

    Raises:
        Refused: already_resolved, stale_attempt, not_claimed or not_owner, looked for in this
            order. The lead may complete what is another's, or pending and nobody's.
    """
    who = Actor.of(view.team, by)
    task = task_of(view, task_id)
    if check_rules.is_done(task) or check_rules.is_queued(task):
        raise resolved(task)
    if attempt is not None:
        _refuse_stale(task, attempt)
    if task.status == "pending" and not (who.lead and not task.owner):
        raise not_claimed(task)
    if not (who.lead or who.owns(task)):
        raise _not_owner(task, who)
    return task


def done(
    view: View,
    task_id: str,
    *,
    by: str,
    attempt: int | None = None,
    report: str | None = None,
    found: Sequence[Check] = (),
    work: HandIn | None = None,
    now_ms: int = 0,
) -> Done:
    """The task completed, with what that unblocks. `found` is what its checks found just now.

    With `work` it is done only when that is merged; until then it unblocks nothing.

    Raises:
        Refused: whatever `provable` refuses, or checks_missing.
    """
    task = check_rules.with_results(provable(view, task_id, by=by, attempt=attempt), found)
    _refuse_unproven(task, report)
    if work is not None:
        task = queued(view.tasks().values(), task, work, by=by, now_ms=now_ms)
    elif task.facts.merge is not None:
        # What came back is not needed any more: there is nothing left to merge.
        task = task.with_facts(merge=None)
    return _done(view, task, report)


def forced(
    view: View, task_id: str, *, by: str, voice: Voice, reason: str, report: str | None, now_ms: int
) -> Done:
    """The task completed by a person's word, without its checks, with what that unblocks.

    Raises:
        Refused: whatever `provable` refuses, or not_a_person.
    """
    task = provable(view, task_id, by=by).with_facts(merge=None)
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
            f"Task {task.id!r} is at attempt {task.facts.attempt}, not {attempt}.",
            reason="stale_attempt",
            remedy="Stop working on it: it was released and claimed again since.",
        )


def not_claimed(task: Task) -> Refused:
    """The refusal to act on a task that nobody has."""
    return Refused(
        f"Task {task.id!r} is pending: nobody works on it.",
        reason="not_claimed",
        remedy="Claim it first.",
    )


def _refuse_unproven(task: Task, report: str | None) -> None:
    missing = check_rules.missing(task, report=report)
    if missing:
        raise Refused(
            f"Task {task.id!r} has checks that did not pass in this attempt: {_listed(missing)}.",
            reason="checks_missing",
            remedy="Have them run, and make them pass; a report is given with 'done'.",
        )


def _without_lease(task: Task) -> Task:
    return task if task.facts.lease_until_ms is None else task.with_facts(lease_until_ms=None)


def unblocked_by(view: View, completed: Task) -> tuple[str, ...]:
    """The unfinished tasks for which this was the last open blocker."""
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
    """The task pending and nobody's again.

    Raises:
        Refused: already_resolved, not_claimed, or not_owner for all but its owner and the lead.
    """
    who = Actor.of(view.team, by)
    task = task_of(view, task_id)
    if check_rules.is_done(task) or check_rules.is_queued(task):
        raise resolved(task)
    if task.status == "pending" and not task.owner:
        raise not_claimed(task)
    if not (who.lead or who.owns(task)):
        raise _not_owner(task, who)
    return released(task, reason)


def released(task: Task, reason: str | None) -> Task:
    """The task as it is after a release, whoever asked for it."""
    freed = _without_lease(task.evolve(status="pending", owner=None))
    # A task without any of our facts stays without them.
    if reason is None and freed.facts.released is None:
        return freed
    return freed.with_facts(released=reason)


def released_from(view: View, name: str, *, reason: str) -> list[Task]:
    """All unfinished tasks of a member, released."""
    return [
        released(task, reason)
        for task in view.tasks().values()
        if task.status != "completed" and owner_of(task, view.team.name) == name
    ]


def assign(view: View, task_id: str, to: str, *, by: str) -> Task:
    """The pending task with another owner.

    Raises:
        Refused: already_resolved; already_claimed if it is in progress; not_owner if it is
            another's and `by` is neither that owner nor the lead; not_capable.
        NotFound: `to` is no member.
    """
    member_of(view.team, to)
    task = task_of(view, task_id)
    if task.status == "completed":
        raise resolved(task)
    owner = owner_of(task, view.team.name)
    if task.status == "in_progress":
        raise Refused(
            f"Task {task_id!r} is in progress, owned by {owner!r}.",
            reason="already_claimed",
            remedy="Release it first.",
        )
    if owner not in (None, by, to) and not leads(view.team, by):
        raise _not_owner(task, Actor.of(view.team, by))
    refuse_incapable(view.team, task, to)
    # Whoever gives it to somebody wants it tried again.
    again = task if task.facts.given_up is None else task.with_facts(given_up=None)
    return again if owner == to else again.evolve(owner=to)


def lease_until(now_ms: int, lease_s: float | None) -> int | None:
    """When a lease that begins now is over."""
    if lease_s is None:
        return None
    if not (math.isfinite(lease_s) and lease_s > 0):
        raise Invalid(
            f"A lease or deadline of {lease_s} seconds is none.",
            remedy="Give a number of seconds above 0.",
        )
    return now_ms + round(lease_s * 1000)


def renew(view: View, task_id: str, *, by: str, attempt: int, now_ms: int, lease_s: float) -> Task:
    """The task with a longer lease.

    Raises:
        Refused: already_resolved, stale_attempt, not_claimed or not_owner.
    """
    lease = lease_until(now_ms, lease_s)
    who = Actor.of(view.team, by)
    task = task_of(view, task_id)
    if task.status == "completed":
        raise resolved(task)
    _refuse_stale(task, attempt)
    if task.status == "pending":
        raise not_claimed(task)
    if not (who.lead or who.owns(task)):
        raise _not_owner(task, who)
    return task.with_facts(lease_until_ms=lease)


def expired(view: View, *, now_ms: int) -> list[Task]:
    """All tasks in progress whose lease is over, released."""
    return [
        released(task, LEASE_OVER)
        for task in view.tasks().values()
        if task.status == "in_progress"
        and task.facts.lease_until_ms is not None
        and task.facts.lease_until_ms <= now_ms
    ]


def restate(view: View, task_id: str, checks: Sequence[Check], *, by: str, voice: Voice) -> Task:
    """The task with other checks in place of those it has.

    Raises:
        Refused: already_resolved, or checks_fixed for its owner and all other agents but the lead.
    """
    task = task_of(view, task_id)
    if task.status == "completed":
        raise resolved(task)
    return check_rules.restated(task, checks, Actor.of(view.team, by), voice=voice)


def record_checks(
    view: View, task_id: str, found: Sequence[Check], *, by: str, attempt: int
) -> Task:
    """The task with what its checks found, all of it for the attempt in which it was looked for.

    Raises:
        Refused: already_resolved, stale_attempt, or not_owner for all but its owner and the lead.
    """
    who = Actor.of(view.team, by)
    task = task_of(view, task_id)
    if check_rules.is_done(task):
        raise resolved(task)
    _refuse_stale(task, attempt)
    if not (who.lead or who.owns(task)):
        raise _not_owner(task, who)
    return check_rules.with_results(task, found)


def _listed(ids: Sequence[str]) -> str:
    shown = ", ".join(repr(task_id) for task_id in ids[:8])
    return shown if len(ids) <= 8 else f"{shown} and {len(ids) - 8} more"
