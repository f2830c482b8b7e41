"""Rules for the merge queue: what is queued, and how each step changes a task. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bullpen.errors import Refused
from bullpen.protocol.request import Voice
from bullpen.protocol.task import STEPS_MAX, Merge, ReturnedFor, Step, Task
from bullpen.protocol.team import MergeSettings, TeamConfig
from bullpen.team.tasks.check_rules import is_queued, landing


@dataclass(frozen=True, slots=True)
class HandIn:
    """Work on a branch: its last commit, its base and the ref that keeps it."""

    commit: str
    base: str
    ref: str


def refuse_configuring(voice: Voice) -> None:
    """Refuse to let an agent configure what its own work has to pass.

    Raises:
        Refused: not_a_person.
    """
    if voice != "human":
        raise Refused(
            "An agent cannot change the target branch or the merge gate.",
            reason="not_a_person",
            remedy="Ask a person to run: bullpen merge set",
        )


def queued(tasks: Iterable[Task], task: Task, work: HandIn, *, by: str, now_ms: int) -> Task:
    """Return the task with its work at the end of the queue. Earlier queue steps are kept."""
    records = [record for other in tasks if (record := other.facts.merge) is not None]
    order = max((record.order for record in records), default=0) + 1
    before = task.facts.merge
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


def queue_order(tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks whose work waits to be merged, in the order they were handed in."""
    waiting = [(record.order, task) for task in tasks if (record := _waiting(task)) is not None]
    return [task for _, task in sorted(waiting, key=lambda pair: pair[0])]


def _waiting(task: Task) -> Merge | None:
    record = task.facts.merge if is_queued(task) else None
    return record if record is not None and record.state == "queued" else None


def in_line(task: Task, attempt: int) -> Merge:
    """Return the record of queued work.

    Raises:
        Refused: not_queued, if the work is no longer queued or was replaced by other work.
    """
    record = _waiting(task)
    if record is None or record.attempt != attempt:
        raise not_queued(task.id)
    return record


def not_queued(task_id: str) -> Refused:
    """Return the refusal to act on work that is not queued."""
    return Refused(
        f"Task {task_id!r} is not in the merge queue with that work.",
        reason="not_queued",
        remedy="Show the merge queue: bullpen merge list",
    )


def noted(task: Task, attempt: int, steps: Sequence[Step]) -> Task:
    """Return the task with what the queue did with its work."""
    record = in_line(task, attempt)
    return _kept(task, record.evolve(tries=record.tries + _tests(steps)), steps)


def _tests(steps: Sequence[Step]) -> int:
    return sum(step.what in {"tested", "bisected"} for step in steps)


def about_to_land(task: Task, attempt: int, commit: str, steps: Sequence[Step]) -> Task:
    """Return the task with the commit that its work will be on the target."""
    record = in_line(task, attempt)
    tries = record.tries + _tests(steps)
    return _kept(task, record.evolve(candidate=commit, tries=tries), steps)


def landed(task: Task, attempt: int, steps: Sequence[Step], *, tell: bool) -> Task | None:
    """Return the task with its work merged, so it is done. None if it is no longer queued.

    With `tell`, a command must still be run for it.
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
    """Return the merged tasks whose after-merge command has not run yet, in order."""
    due = [(record.order, task) for task in tasks if (record := _due(task)) is not None]
    return [task for _, task in sorted(due, key=lambda pair: pair[0])]


def _due(task: Task) -> Merge | None:
    # Checked before the record is parsed: few tasks qualify, and lists are long.
    own = (task.metadata or {}).get("bullpen")
    row = own.get("merge") if isinstance(own, dict) else None
    if not isinstance(row, dict) or row.get("told") != "due":
        return None
    record = task.facts.merge
    return record if record is not None and record.state == "merged" else None


def told(task: Task, passed: bool, step: Step) -> Task | None:
    """Return the task after its after-merge command ran; None if none was due."""
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
    """Return the task as pending with its owner, and with the reason its work came back."""
    record = in_line(task, attempt).evolve(
        state="returned", candidate=None, why=why, detail=detail, files=list(files)
    )
    back = task.evolve(status="pending", owner=owner)
    said = _WORDS[why] if why != "checks" else f"{_WORDS[why]}: {output_end(detail)}"
    return _kept(back.with_facts(released=f"came back from the merge queue: {said}"), record, steps)


def output_end(detail: str) -> str:
    """Return the end of what a failing check printed, in one line; its first line names it."""
    name, *printed = detail.splitlines() or [""]
    words = "; ".join(line.strip() for line in printed if line.strip()) or name
    return words if len(words) <= _END_CHARS else f"...{words[-_END_CHARS:]}"


_END_CHARS = 100
_NAMES_MAX = 200

_WORDS: dict[ReturnedFor, str] = {
    "conflict": "it conflicts with the target",
    "checks": "its checks fail on the target",
    "missing": "its commit cannot be fetched",
    "guarded": "no person approved its changes to guarded paths",
    "review": "its review on the forge asks for changes",
    "promise": "it does not fit what members promised each other",
    "nothing": "its changes are on the target already",
}


def must_pass(task: Task, settings: MergeSettings | None) -> bool:
    """Return whether something has to pass on the target with the work of a task: the merge gate,
    or checks of its own that can be run there.
    """
    if settings is None:
        return False
    own = any(check.kind in ("command", "file") for check in task.facts.checks)
    return own or bool(settings.gate)


def proof_words(task: Task, settings: MergeSettings) -> str:
    """Return what work has to pass, in a few words that another gate or setup changes.

    The step of a test that passed says it, so that a proof ends with the gate that it is by.
    """
    checks = [*settings.gate, *(check.stated for check in task.facts.checks)]
    names = ", ".join(dict.fromkeys(check.name for check in checks))
    whole = json.dumps([settings.setup, *(check.stated.raw for check in checks)], sort_keys=True)
    return f"{names[:_NAMES_MAX]} ({hashlib.sha256(whole.encode()).hexdigest()[:12]})"


def last_proof(record: Merge) -> Step | None:
    """Return the last test that this very work passed."""
    for step in reversed(record.steps):
        if step.what == "queued":
            break
        if step.what == "tested" and step.passed is True:
            return step
    return None


def proven_on(task: Task, settings: MergeSettings | None) -> str | None:
    """Return the commit of the target with which this work passed what it has to pass now."""
    record = task.facts.merge
    proof = None if record is None else last_proof(record)
    if proof is None or settings is None or proof.detail != proof_words(task, settings):
        return None
    return proof.onto


def unchanged(team: TeamConfig, tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks that were completed without a change, in a team whose work is merged.

    What a night asks for may need no change: its answer is the report, which the forge shows.
    """
    facts = team.facts
    if facts.merge is None and facts.forge is None:
        return []
    answers = {fix.task for night in facts.nights or () for fix in night.fixes}
    return [
        task
        for task in tasks
        if landing(task) == "unchanged" and not task.is_internal and task.id not in answers
    ]


def _kept(task: Task, merge: Merge, steps: Sequence[Step]) -> Task:
    return task.with_facts(merge=merge.evolve(steps=[*merge.steps, *steps][-STEPS_MAX:]))
