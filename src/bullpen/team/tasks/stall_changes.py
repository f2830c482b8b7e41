"""Rules for nudging an owner, giving its task back, reassigning it and giving it up. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bullpen.errors import Refused
from bullpen.protocol.task import Nudged, Reminded, Task
from bullpen.store.contract import View
from bullpen.team.lookup import Actor, forgiving, owner_of, task_of
from bullpen.team.tasks.check_rules import is_done
from bullpen.team.tasks.merge_rules import unchanged
from bullpen.team.tasks.rules import (
    not_claimed,
    open_blockers,
    refuse_others,
    release,
    released,
    unresolved,
)
from bullpen.team.tasks.stall_rules import NOT_READY, blocked_for_good


def nudge(view: View, task_id: str, *, attempt: int, times: int, why: str, now_ms: int) -> Task:
    """Return the task with one nudge more than `times` in this attempt.

    Raises:
        Refused: not_stalled, if there is a newer attempt or its owner was already nudged.
    """
    task = task_of(view, task_id)
    facts = task.facts
    if task.status != "in_progress" or (facts.attempt, facts.nudges) != (attempt, times):
        raise Refused(
            f"Task {task_id!r} is no longer stalled.", reason="not_stalled", remedy="Do nothing."
        )
    nudged = Nudged.new(attempt=attempt, times=times + 1, at_ms=now_ms, why=why)
    return task.with_facts(nudged=nudged.raw)


def reminded(
    view: View, task_ids: Sequence[str], *, by: str, times: int, most: int, now_ms: int
) -> list[Task]:
    """Return the tasks with a reminder that was given to `by`, their owner or the lead.

    Those that are done, deleted or somebody else's by now are left out.
    """
    who = Actor.of(view.team, by)
    found = (view.task(task_id) for task_id in task_ids)
    return [
        task.with_facts(
            reminded=Reminded.new(
                by=by, attempt=task.facts.attempt, times=times, most=most, at_ms=now_ms
            ).raw
        )
        for task in found
        if task is not None and not is_done(task) and (who.lead or who.owns(task))
    ]


def give_back(view: View, task_id: str, *, by: str, reason: str | None = None) -> Task:
    """Return the task as pending without an owner, as its owner or the lead asked for.

    An owner that had it in progress is not handed it again, unless only its worktree was to blame,
    or the task waits for others now. Raises as `rules.release`.
    """
    task = release(view, task_id, by=by, reason=reason)
    was = task_of(view, task_id)
    own = was.status == "in_progress" and owner_of(was, view.team.name) == by
    excused = NOT_READY in (reason or "") or open_blockers(task, forgiving(view))
    if not own or excused or Actor.of(view.team, by).lead:
        return task
    return task.with_facts(gave_back=list(dict.fromkeys([*(task.facts.gave_back or ()), by])))


def relieve(view: View, task_id: str, *, reason: str) -> Task:
    """Return the task as pending without an owner, not to be taken again by the last one.

    Raises:
        Refused: already_resolved, or not_claimed.
    """
    task = unresolved(view, task_id)
    owner = owner_of(task, view.team.name)
    if owner is None:
        raise not_claimed(task)
    tried = list(dict.fromkeys([*(task.facts.tried or ()), owner]))
    return released(task, reason).with_facts(tried=tried)


def give_up(view: View, task_id: str, *, by: str, reason: str) -> Task:
    """Return the task as pending without an owner, not offered to anyone until it is retried.

    Raises:
        Refused: already_resolved, or not_owner for everybody but its owner and the lead.
    """
    task = unresolved(view, task_id)
    refuse_others(task, Actor.of(view.team, by))
    return released(task, reason).with_facts(given_up=reason)


def retry(view: View, task_id: str) -> list[Task]:
    """Return the task as if it had never been taken away from anybody.

    The tasks that were given up because they depend on it come after it: they are retried, too.
    One that was completed without a change, where work is merged, is open again.
    """
    task = task_of(view, task_id)
    if unchanged(view.team, [task]):
        return [_anew(released(task, "it was completed without a change"))]
    return [_anew(unresolved(view, task_id)), *waiting_again(view, task_id)]


def waiting_again(view: View, task_id: str) -> list[Task]:
    """Return the tasks that were given up only because this one was, to be done after all."""
    found: dict[str, Task] = {}
    blockers = [task_id]
    for blocker in blockers:
        task = view.task(blocker)
        for name in () if task is None else task.blocks:
            waiting = view.task(name)
            if name in found or waiting is None or is_done(waiting):
                continue
            if waiting.facts.given_up == blocked_for_good(blocker):
                found[name] = _anew(waiting)
                blockers.append(name)
    return list(found.values())


def _anew(task: Task) -> Task:
    return task.with_facts(given_up=None, tried=None, gave_back=None)
