"""New tasks: validates drafts and turns them into tasks. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bullpen.errors import Conflict, Invalid, Refused
from bullpen.protocol.task import Check, Effort, Shaped, Task
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import View
from bullpen.team.budget.rules import budget
from bullpen.team.lookup import member_of
from bullpen.team.tasks.check_rules import stated
from bullpen.team.tasks.rules import blocker_of, check_metadata, check_subject


@dataclass(frozen=True, slots=True)
class Draft:
    """A task to be added. In a list of drafts, `@0` names the first one."""

    subject: str
    description: str = ""
    active_form: str | None = None
    blocked_by: Sequence[str] = ()
    owner: str | None = None
    checks: Sequence[Check] = ()
    metadata: Mapping[str, Any] | None = None
    # Its budget: turns, tokens, usd.
    budget: Mapping[str, float | None] | None = None
    # The skills it needs, its effort, and its backlog entry.
    needs: Sequence[str] = ()
    effort: Effort | None = None
    source: str | None = None
    shape: Shaped | None = None


def drafted(
    view: View, drafts: Sequence[Draft], *, first: str | None = None
) -> tuple[list[Task], list[Task]]:
    """Return the new tasks in draft order, and the tasks they depend on that change.

    New tasks cannot form a cycle: nothing depends on an unused id, and a draft can only depend on
    drafts before it.

    Raises:
        Conflict: a draft's backlog entry is already a task, or the next id is not `first`.
    """
    _refuse_known(view, drafts)
    number = view.next_task_id
    if first is not None and first != str(number):
        raise Conflict(f"Task {first!r} was added meanwhile.", remedy="Add this one again.")
    ids = {f"@{index}": str(number + index) for index in range(len(drafts))}
    new = set(ids.values())
    waits: dict[str, list[str]] = {}
    waiters: dict[str, list[str]] = {}
    for index, draft in enumerate(drafts):
        _check_draft(view.team, draft)
        task_id = ids[f"@{index}"]
        for blocker in draft.blocked_by:
            # An id that is about to be assigned cannot be referenced by guessing it.
            if blocker in new or (blocker.startswith("@") and ids.get(blocker) not in waits):
                raise _no_earlier_draft(blocker, index)
        waits[task_id] = list(dict.fromkeys(ids.get(id_, id_) for id_ in draft.blocked_by))
        for blocker in waits[task_id]:
            waiters.setdefault(blocker, []).append(task_id)
    old = [blocker_of(view, blocker) for blocker in waiters if blocker not in new]
    created = [
        _created(task_id, draft, waits[task_id], waiters.get(task_id, []))
        for task_id, draft in zip(waits, drafts, strict=True)
    ]
    return created, [_with_waiters(task, waiters[task.id]) for task in old]


def _refuse_known(view: View, drafts: Sequence[Draft]) -> None:
    wanted = {draft.source for draft in drafts if draft.source is not None}
    if not wanted:
        return
    for task in view.tasks().values():
        if task.facts.source in wanted:
            raise Conflict(
                f"Task {task.id!r} already has backlog entry {task.facts.source!r}.",
                remedy="List the tasks again, then add only what is missing.",
            )


def _with_waiters(task: Task, waiters: list[str]) -> Task:
    # Another program may have used an id before it was assigned.
    return task.evolve(blocks=list(dict.fromkeys((*task.blocks, *waiters))))


def _no_earlier_draft(blocker: str, index: int) -> Refused:
    return Refused(
        f"Draft {index} cannot depend on {blocker!r}.",
        reason="unknown_task",
        remedy="Use '@0' for the first draft. A draft can only depend on drafts before it.",
    )


def _check_draft(team: TeamConfig, draft: Draft) -> None:
    check_subject(draft.subject)
    if draft.owner is not None:
        member_of(team, draft.owner)
    check_metadata(draft.metadata or {})
    stated(draft.checks)


def _created(task_id: str, draft: Draft, blockers: list[str], waiters: list[str]) -> Task:
    try:
        task = Task.new(
            id=task_id,
            subject=draft.subject,
            description=draft.description,
            active_form=draft.active_form,
            owner=draft.owner,
            blocks=waiters,
            blocked_by=blockers,
            metadata=None if draft.metadata is None else dict(draft.metadata),
        )
    except ValueError as error:
        raise Invalid(
            f"Task {draft.subject!r} cannot be stored: {error}.",
            remedy="Metadata must be JSON without deep nesting.",
        ) from None
    cap = budget(**(draft.budget or {})).raw
    if cap:
        task = task.with_facts(budget=cap)
    facts = {
        "checks": stated(draft.checks),
        "needs": list(dict.fromkeys(draft.needs)),
        "effort": draft.effort,
        "source": draft.source,
        "shape": None if draft.shape is None else draft.shape.raw,
    }
    said = {name: value for name, value in facts.items() if value}
    return task.with_facts(**said) if said else task
