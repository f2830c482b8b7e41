"""Taking a task away from whoever comes to nothing with it, and giving it up for good. Pure."""

from __future__ import annotations

from bullpen.errors import Refused
from bullpen.protocol.task import Task
from bullpen.protocol.unattended import Nudged
from bullpen.store.base import View
from bullpen.team.lookup import owner_of, task_of
from bullpen.team.rules import not_claimed, released, resolved


def nudge(view: View, task_id: str, *, attempt: int, times: int, why: str, now_ms: int) -> Task:
    """The task with one reminder more than `times` in this attempt.

    Raises:
        Refused: not_stalled, if it is not in that attempt any more or was reminded of meanwhile.
    """
    task = task_of(view, task_id)
    facts = task.facts
    if task.status != "in_progress" or (facts.attempt, facts.nudges) != (attempt, times):
        raise Refused(
            f"Task {task_id!r} has moved on.", reason="not_stalled", remedy="Nothing to do."
        )
    nudged = Nudged.new(attempt=attempt, times=times + 1, at_ms=now_ms, why=why)
    return task.with_facts(nudged=nudged.raw)


def relieve(view: View, task_id: str, *, reason: str) -> Task:
    """The task pending and nobody's, and not to be taken again by whoever had it.

    Raises:
        Refused: already_resolved, or not_claimed.
    """
    task = task_of(view, task_id)
    if task.status == "completed":
        raise resolved(task)
    owner = owner_of(task, view.team.name)
    if owner is None:
        raise not_claimed(task)
    tried = list(dict.fromkeys([*(task.facts.tried or ()), owner]))
    return released(task, reason).with_facts(tried=tried)


def give_up(view: View, task_id: str, *, reason: str) -> Task:
    """The task pending, nobody's, and out of everybody's reach until somebody has it retried.

    Raises:
        Refused: already_resolved.
    """
    task = task_of(view, task_id)
    if task.status == "completed":
        raise resolved(task)
    return released(task, reason).with_facts(given_up=reason)


def retry(view: View, task_id: str) -> Task:
    """The task as if nobody had been relieved of it.

    Raises:
        Refused: already_resolved.
    """
    task = task_of(view, task_id)
    if task.status == "completed":
        raise resolved(task)
    return task.with_facts(given_up=None, tried=None)
