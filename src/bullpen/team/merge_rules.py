"""Bringing work together: what is in line, and what a task is after each step. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bullpen.errors import Refused
from bullpen.protocol.merge import STEPS_MAX, Merge, ReturnedFor, Step, merge_of
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Task
from bullpen.team.check_rules import is_queued


@dataclass(frozen=True, slots=True)
class HandIn:
    """Work on a branch: its last commit, where it begins, and the ref that keeps it."""

    commit: str
    base: str
    ref: str


def refuse_configuring(voice: Voice) -> None:
    """Refuse an agent that would say itself what its work has to pass.

    Raises:
        Refused: not_a_person.
    """
    if voice != "human":
        raise Refused(
            "An agent cannot change where work goes, or what must hold there.",
            reason="not_a_person",
            remedy="Ask a person: bullpen merge set",
        )


def queued(tasks: Iterable[Task], task: Task, work: HandIn, *, by: str, now_ms: int) -> Task:
    """The task with its work at the end of the line. What the queue did with it before is kept."""
    records = [record for other in tasks if (record := merge_of(other)) is not None]
    order = max((record.order for record in records), default=0) + 1
    before = merge_of(task)
    merge = Merge.new(
        state="queued",
        order=order,
        commit=work.commit,
        base=work.base,
        ref=work.ref,
        by=by,
        attempt=task.facts.attempt,
        at_ms=now_ms,
        tries=0 if before is None else before.tries,
        steps=[] if before is None else before.steps,
    )
    return _kept(task, merge, [Step.new(at_ms=now_ms, what="queued", commit=work.commit)])


def line(tasks: Iterable[Task]) -> list[Task]:
    """The tasks whose work waits to be merged, first come, first served."""
    waiting = [(record.order, task) for task in tasks if (record := _waiting(task)) is not None]
    return [task for _, task in sorted(waiting, key=lambda pair: pair[0])]


def _waiting(task: Task) -> Merge | None:
    record = merge_of(task) if is_queued(task) else None
    return record if record is not None and record.state == "queued" else None


def in_line(task: Task, attempt: int) -> Merge:
    """The record of work that still waits.

    Raises:
        Refused: not_queued, if it does not wait any more, or other work does in its place.
    """
    record = _waiting(task)
    if record is None or record.attempt != attempt:
        raise not_queued(task.id)
    return record


def not_queued(task_id: str) -> Refused:
    """The refusal to do something with work that does not wait, or not this work."""
    return Refused(
        f"Task {task_id!r} does not wait in the merge queue with that work.",
        reason="not_queued",
        remedy="Look at the queue again: bullpen merge list",
    )


def noted(task: Task, attempt: int, steps: Sequence[Step]) -> Task:
    """The task with what the queue did with its work."""
    record = in_line(task, attempt)
    return _kept(task, record.evolve(tries=record.tries + _tests(steps)), steps)


def _tests(steps: Sequence[Step]) -> int:
    return sum(step.what in {"tested", "bisected"} for step in steps)


def about_to_land(task: Task, attempt: int, commit: str, steps: Sequence[Step]) -> Task:
    """The task with the commit that its work is on the target, as soon as the target moves."""
    record = in_line(task, attempt)
    tries = record.tries + _tests(steps)
    return _kept(task, record.evolve(candidate=commit, tries=tries), steps)


def landed(task: Task, attempt: int, steps: Sequence[Step], *, tell: bool) -> Task | None:
    """The task with its work on the target: now it is done. None if it does not wait any more.

    With `tell` a command is still to be run for it.
    """
    record = _waiting(task)
    if record is None or record.attempt != attempt:
        return None
    merged = record.evolve(
        state="merged",
        landed=record.candidate,
        told="due" if tell else None,
        why=None,
        detail=None,
        files=[],
    )
    return _kept(task, merged, steps)


def untold(tasks: Iterable[Task]) -> list[Task]:
    """The tasks whose work landed and for which the command after that is due, in order."""
    due = [(record.order, task) for task in tasks if (record := _due(task)) is not None]
    return [task for _, task in sorted(due, key=lambda pair: pair[0])]


def _due(task: Task) -> Merge | None:
    # Looked at before the record is read: nearly no task is due, and lists are long.
    own = (task.metadata or {}).get("bullpen")
    row = own.get("merge") if isinstance(own, dict) else None
    if not isinstance(row, dict) or row.get("told") != "due":
        return None
    record = merge_of(task)
    return record if record is not None and record.state == "merged" else None


def told(task: Task, passed: bool, step: Step) -> Task | None:
    """The task after the command was run for it; None if that was not due."""
    record = _due(task)
    if record is None:
        return None
    return _kept(task, record.evolve(told="ran" if passed else "failed"), [step])


def returned(
    task: Task,
    attempt: int,
    why: ReturnedFor,
    detail: str,
    files: Sequence[str],
    steps: Sequence[Step],
    *,
    owner: str | None,
) -> Task:
    """The task pending again with its owner, and what is in the way of its work."""
    record = in_line(task, attempt).evolve(
        state="returned", candidate=None, why=why, detail=detail, files=list(files)
    )
    back = task.evolve(status="pending", owner=owner)
    return _kept(
        back.with_facts(released=f"came back from the merge queue: {_WORDS[why]}"), record, steps
    )


_WORDS: dict[ReturnedFor, str] = {
    "conflict": "it contradicts the target",
    "checks": "its checks fail on the target",
    "missing": "its commit is not to be had",
}


def _kept(task: Task, merge: Merge, steps: Sequence[Step]) -> Task:
    rows = [*merge.steps, *(step.raw for step in steps)][-STEPS_MAX:]
    return task.with_facts(merge=merge.evolve(steps=rows).raw)
