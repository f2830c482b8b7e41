"""The state of a task, in the one word that every screen, report and metric uses. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from bullpen.protocol.task import Task
from bullpen.team.tasks.check_rules import is_done, is_queued, is_unproven
from bullpen.team.tasks.rules import open_blockers

TaskState = Literal[
    "in_progress", "ready", "queued", "unproven", "blocked", "given_up", "merged", "done", "unknown"
]
TASK_STATES: tuple[TaskState, ...] = (
    "in_progress", "ready", "queued", "unproven", "blocked", "given_up", "merged", "done",
    "unknown",
)  # fmt: skip
"""In the order in which boards show them."""

FINISHED: frozenset[TaskState] = frozenset({"merged", "done"})
"""The states in which nothing is left to do."""


def task_state(task: Task, waits_for: Collection[str]) -> TaskState:
    """The state of a task that waits for these open tasks."""
    if is_done(task):
        return "done" if task.facts.merge is None else "merged"
    if task.facts.given_up is not None:
        return "given_up"
    if is_queued(task):
        return "queued"
    if is_unproven(task):
        return "unproven"
    if task.status == "in_progress" or task.status == "unknown":
        return task.status
    return "blocked" if waits_for else "ready"


def shown_subject(task: Task) -> str:
    """What a task is called: while it is in progress, its active form if it has one."""
    return (task.active_form if task.status == "in_progress" else None) or task.subject


def task_states(tasks: Iterable[Task]) -> dict[str, TaskState]:
    by_id: Mapping[str, Task] = {task.id: task for task in tasks}
    return {task.id: task_state(task, open_blockers(task, by_id.get)) for task in by_id.values()}


def state_word(state: TaskState) -> str:
    return state.replace("_", " ")
