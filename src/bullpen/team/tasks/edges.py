"""Dependencies between tasks: recorded in both tasks, never in a cycle. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bullpen.errors import NotFound, Refused
from bullpen.protocol.changes import Change, DeleteTask, PutTask
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Task
from bullpen.store.contract import View
from bullpen.team.lead_rules import is_open
from bullpen.team.lookup import Actor, find, task_of
from bullpen.team.tasks import check_rules
from bullpen.team.tasks.rules import blocker_of, refuse_others

_PATH_SHOWN_MAX = 8


def depend(view: View, task_id: str, on: Sequence[str]) -> tuple[Task, list[Task]]:
    """Return the task that now depends on `on`, and every task whose record changes.

    Raises:
        Refused: unknown_task, self_dependency or cycle.
    """
    task = task_of(view, task_id)
    blockers: dict[str, Task] = {}
    for blocker_id in on:
        if blocker_id == task_id:
            raise Refused(
                f"Task {task_id!r} cannot depend on itself.",
                reason="self_dependency",
                remedy="Name another task.",
            )
        blockers[blocker_id] = blocker_of(view, blocker_id)
    _refuse_cycle(view, task, list(blockers))
    linked = _with(task, "blocked_by", list(blockers))
    others = {id_: _with(blocker, "blocks", [task_id]) for id_, blocker in blockers.items()}
    changed = [other for id_, other in others.items() if other is not blockers[id_]]
    return linked, changed if linked is task else [linked, *changed]


def undepend(view: View, task_id: str, on: Sequence[str]) -> tuple[Task, list[Task]]:
    """Return the task that no longer depends on `on`, and every task whose record changes.

    A dependency on a missing task can also be removed, and so can one recorded in one task only.

    Raises:
        NotFound: it does not depend on one of them.
    """
    task = task_of(view, task_id)
    changed: list[Task] = []
    for blocker_id in dict.fromkeys(on):
        blocker = find(view, blocker_id)
        other_end = blocker is not None and task_id in blocker.blocks
        if not other_end and blocker_id not in task.blocked_by:
            waits_for = ", ".join(task.blocked_by) or "nothing"
            raise NotFound(
                f"Task {task_id!r} does not depend on {blocker_id!r}.",
                remedy=f"It depends on: {waits_for}.",
            )
        if blocker is not None and other_end:
            changed.append(_without(blocker, "blocks", {task_id}))
    freed = _without(task, "blocked_by", set(on))
    return freed, changed if freed is task else [freed, *changed]


def refuse_deleting(view: View, task: Task, *, by: str, voice: Voice) -> None:
    """Refuse to let an agent delete another's task, or a task whose checks it has to pass.

    Raises:
        Refused: not_owner or checks_fixed.
    """
    who = Actor.of(view.team, by)
    if task.owner and voice != "human" and not is_open(view.team, "task.delete"):
        refuse_others(task, who)
    check_rules.refuse_deletion(task, who, voice=voice)


def delete(view: View, task_id: str) -> tuple[Task, list[Change]]:
    """Return the task to delete, and all resulting changes.

    All tasks are searched: a reference left in one of them would block it forever.
    """
    task = task_of(view, task_id)
    gone = {task_id}
    cleaned = (
        (other, without_references(other, gone))
        for other in view.tasks().values()
        if other.id != task_id
    )
    changes: list[Change] = [PutTask(after) for before, after in cleaned if after is not before]
    return task, [DeleteTask(task_id), *changes]


def without_references(task: Task, ids: set[str]) -> Task:
    """Return the task without references to some ids; the same object if it has none."""
    return _without(_without(task, "blocked_by", ids), "blocks", ids)


def with_blocker(task: Task, blocker_id: str) -> Task:
    """Return the task with this dependency; the same object if it already has it."""
    return _with(task, "blocked_by", [blocker_id])


def with_waiter(task: Task, waiter_id: str) -> Task:
    """Return the blocking task with this dependent; the same object if it already has it."""
    return _with(task, "blocks", [waiter_id])


def _with(task: Task, end: str, ids: Sequence[str]) -> Task:
    known: list[str] = getattr(task, end)
    missing = [task_id for task_id in ids if task_id not in known]
    return task.evolve(**{end: [*known, *missing]}) if missing else task


def _without(task: Task, end: str, ids: set[str]) -> Task:
    known: list[str] = getattr(task, end)
    kept = [task_id for task_id in known if task_id not in ids]
    return task.evolve(**{end: kept}) if len(kept) < len(known) else task


def _refuse_cycle(view: View, task: Task, blockers: Sequence[str]) -> None:
    """Refuse if a blocker already depends on the task, directly or not.

    Two searches that meet find every path without reading all tasks, including dependencies that
    another program recorded in one task only.
    """
    waiting = _reached(view, [task.id], lambda waiter: waiter.blocks)
    came_from = _reached(view, blockers, lambda waiter: waiter.blocked_by)
    meeting = next((task_id for task_id in came_from if task_id in waiting), None)
    if meeting is None:
        return
    path = [*reversed(_trail(came_from, meeting)), *_trail(waiting, meeting)[1:]]
    shown = " -> ".join(path[:_PATH_SHOWN_MAX]) + (" ..." if len(path) > _PATH_SHOWN_MAX else "")
    raise Refused(
        f"Task {task.id!r} cannot depend on {path[0]!r}, which already depends on it: {shown}.",
        reason="cycle",
        remedy="Remove one of these dependencies first.",
    )


def _reached(
    view: View, start: Sequence[str], follow: Callable[[Task], Sequence[str]]
) -> dict[str, str | None]:
    """Return every reachable id, with the id it was first reached from."""
    reached: dict[str, str | None] = dict.fromkeys(start)
    todo = list(start)
    while todo:
        current = todo.pop()
        task = find(view, current)
        for neighbour in follow(task) if task is not None else ():
            if neighbour not in reached:
                reached[neighbour] = current
                todo.append(neighbour)
    return reached


def _trail(came_from: dict[str, str | None], end: str) -> list[str]:
    trail: list[str] = []
    current: str | None = end
    while current is not None:
        trail.append(current)
        current = came_from[current]
    return trail
