"""New tasks: what a draft must say, and the tasks that come of a list of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bullpen.errors import Conflict, Invalid, Refused
from bullpen.protocol.budget import Budget
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.task import Check, Effort, Task
from bullpen.store.base import View
from bullpen.team.budget_rules import changed
from bullpen.team.check_rules import stated
from bullpen.team.lookup import find, member_of
from bullpen.team.rules import check_metadata, check_subject, unknown_task


@dataclass(frozen=True, slots=True)
class Draft:
    """A task that is not there yet. In a list of drafts, `@0` names the first of them."""

    subject: str
    description: str = ""
    active_form: str | None = None
    blocked_by: Sequence[str] = ()
    owner: str | None = None
    checks: Sequence[Check] = ()
    metadata: Mapping[str, Any] | None = None
    # What may be used for it: turns, tokens, usd.
    budget: Mapping[str, float | None] | None = None
    # What whoever takes it must be able to do, how much it is, and the backlog's entry it is.
    needs: Sequence[str] = ()
    effort: Effort | None = None
    source: str | None = None


def drafted(view: View, drafts: Sequence[Draft]) -> tuple[list[Task], list[Task]]:
    """The new tasks, in the order of their drafts, and the blockers whose other end changes.

    A new task cannot close a circle: nothing waits for an id that was never given, and a draft
    waits only for drafts before it.

    Raises:
        Conflict: one comes from an entry of a backlog that is a task already.
    """
    _refuse_known(view, drafts)
    first = view.next_task_id
    ids = {f"@{index}": str(first + index) for index in range(len(drafts))}
    new = set(ids.values())
    waits: dict[str, list[str]] = {}
    waiters: dict[str, list[str]] = {}
    for index, draft in enumerate(drafts):
        _check_draft(view.team, draft)
        task_id = ids[f"@{index}"]
        for blocker in draft.blocked_by:
            # A guess at an id that is about to be given is no reference to it.
            if blocker in new or (blocker.startswith("@") and ids.get(blocker) not in waits):
                raise _no_earlier_draft(blocker, index)
        waits[task_id] = list(dict.fromkeys(ids.get(id_, id_) for id_ in draft.blocked_by))
        for blocker in waits[task_id]:
            waiters.setdefault(blocker, []).append(task_id)
    old = [_blocker(view, blocker) for blocker in waiters if blocker not in new]
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
                f"Task {task.id!r} is the entry {task.facts.source!r} of the backlog already.",
                remedy="Read the tasks again, and add what is not there.",
            )


def _with_waiters(task: Task, waiters: list[str]) -> Task:
    # Another program may have noted an id before it was given.
    return task.evolve(blocks=list(dict.fromkeys((*task.blocks, *waiters))))


def _no_earlier_draft(blocker: str, index: int) -> Refused:
    return Refused(
        f"Draft {index} cannot wait for {blocker!r}.",
        reason="unknown_task",
        remedy="'@0' names the first draft; a draft can wait for those before it.",
    )


def _blocker(view: View, task_id: str) -> Task:
    task = find(view, task_id)
    if task is None:
        raise unknown_task(task_id)
    return task


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
            remedy="Metadata must be JSON and must not nest deeply.",
        ) from None
    cap = changed(Budget.new(), draft.budget or {}).raw
    if cap:
        task = task.with_facts(budget=cap)
    facts = {
        "checks": stated(draft.checks),
        "needs": list(dict.fromkeys(draft.needs)),
        "effort": draft.effort,
        "source": draft.source,
    }
    said = {name: value for name, value in facts.items() if value}
    return task.with_facts(**said) if said else task
