"""Rules for promises: who may make one, which contradict each other, who relies on one. Pure.

A promise is in force until it is withdrawn or its task is given up. When its task is done, promised
paths are free again, and the others stay in force while an unfinished task relies on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bullpen.errors import Invalid, NotFound, Refused, Unreadable
from bullpen.protocol.record.promise import PROMISES_MAX, RELIES_MAX, Promise, PromiseKind, Reliance
from bullpen.protocol.task import Task
from bullpen.store.contract import View
from bullpen.team.lookup import Actor, among, owner_of, task_of
from bullpen.team.promises import signatures
from bullpen.team.promises.path_patterns import check_pattern, is_same_file, overlap

_TEXT_MAX = 300
_RUN_MAX = 10_000
# Withdrawn ones are kept, so that numbers are never used again.
_RECORDS_MAX = 200


@dataclass(frozen=True, slots=True)
class PromiseDraft:
    """A promise to be made: what it says, and one thing that proves it."""

    text: str
    kind: PromiseKind
    path: str | None = None
    signature: str | None = None
    run: str | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """A promise that is in force, with its task, its owner and the unfinished tasks that rely on
    it.
    """

    promise: Promise
    task: Task
    owner: str | None
    relied_by: tuple[Task, ...] = ()

    @property
    def what(self) -> str:
        """Return what is promised, in words that a program can check."""
        promise = self.promise
        if promise.kind == "signature":
            return f"{promise.signature} in {promise.path}"
        return f"only it edits {promise.path}" if promise.kind == "path" else f"{promise.run}"

    @property
    def named(self) -> str:
        """Return the promise in one line, for whoever has to keep it or relies on it."""
        whose = f"of {self.owner}" if self.owner else f"of task #{self.task.id}"
        text = " ".join(self.promise.text.split())
        return f"promise {self.promise.id} {whose}: {text!r} ({self.what})"


def promises_of(task: Task) -> list[Promise]:
    """Return the promises of a task, withdrawn ones too. Raises Unreadable."""
    facts = task.facts
    if facts.promises is None and facts.has("promises"):
        raise Unreadable(f"the promises of task {task.id}", "they are not valid")
    return list(facts.promises or ())


def relies_of(task: Task) -> list[Reliance]:
    """Return what a task relies on. Raises Unreadable."""
    facts = task.facts
    if facts.relies is None and facts.has("relies"):
        raise Unreadable(f"the promises that task {task.id} relies on", "they are not valid")
    return list(facts.relies or ())


def _promised(task: Task) -> Sequence[Promise]:
    return task.facts.promises or () if _states(task, "promises") else ()


def _relied(task: Task) -> Sequence[Reliance]:
    return task.facts.relies or () if _states(task, "relies") else ()


def _states(task: Task, key: str) -> bool:
    # Checked before the facts are parsed: few tasks have them, and lists are long.
    own = (task.metadata or {}).get("bullpen")
    return isinstance(own, dict) and bool(own.get(key))


def is_over(task: Task) -> bool:
    """Return whether a task is completed, and its work merged if it was handed in."""
    if task.status != "completed":
        return False
    merge = task.facts.merge
    return merge.state == "merged" if merge is not None else not task.facts.has("merge")


def reliers(tasks: Iterable[Task], promise_id: str) -> tuple[Task, ...]:
    """Return the unfinished tasks that rely on a promise."""
    return tuple(_relied_by(tasks).get(promise_id, ()))


def _relied_by(tasks: Iterable[Task]) -> dict[str, list[Task]]:
    """Return the unfinished tasks that rely on each promise: one look at each task for all."""
    found: dict[str, list[Task]] = {}
    for task in tasks:
        relied = dict.fromkeys(each.promise for each in _relied(task))
        if relied and not is_over(task):
            for promise_id in relied:
                found.setdefault(promise_id, []).append(task)
    return found


def in_force(tasks: Mapping[str, Task], team: str) -> list[Standing]:
    """Return all promises in force, by task and number. Unreadable records are left out."""
    return standing_for(tasks, team, since_ms=None)


def standing_for(tasks: Mapping[str, Task], team: str, *, since_ms: int | None) -> list[Standing]:
    """Return the promises that bind work which began at this time: those in force, and those of
    work that was merged since. Whoever began before the merge could not see it.
    """
    found = []
    relied_by = _relied_by(tasks.values())
    for task in tasks.values():
        for promise in _promised(task):
            standing = _standing(task, promise, relied_by.get(promise.id, ()), team)
            late = promise.withdrawn is None and _merged_since(task, since_ms)
            if late or _holds(standing):
                found.append(standing)
    return found


def _merged_since(task: Task, since_ms: int | None) -> bool:
    merge = task.facts.merge if since_ms is not None and is_over(task) else None
    merged = [step.at_ms for step in merge.steps if step.what == "merged"] if merge else []
    return since_ms is not None and max(merged, default=0) > since_ms


def _standing(task: Task, promise: Promise, relied_by: Iterable[Task], team: str) -> Standing:
    owner = owner_of(task, team) or (promise.by if is_over(task) else None)
    return Standing(promise, task, owner, tuple(relied_by))


def _holds(standing: Standing) -> bool:
    promise, task = standing.promise, standing.task
    if promise.withdrawn is not None or task.facts.given_up is not None:
        return False
    return not is_over(task) or (promise.kind != "path" and bool(standing.relied_by))


def find_promise(view: View, promise_id: str) -> Standing:
    """Return a promise by its id, also one that is no longer in force.

    Raises:
        NotFound: there is no such promise.
        Unreadable: the promises of its task are damaged.
    """
    wanted = promise_id.strip().removeprefix("#")
    tasks = view.tasks()
    task = tasks.get(wanted.partition(".")[0])
    for promise in () if task is None else promises_of(task):
        if task is not None and promise.id == wanted:
            return _standing(task, promise, reliers(tasks.values(), promise.id), view.team.name)
    known = [each.promise.id for each in in_force(tasks, view.team.name)]
    raise NotFound(
        f"Team {view.team.name!r} has no promise {promise_id!r}.",
        remedy=among(promise_id, known, what="promises"),
    )


def made(
    view: View, task_id: str, draft: PromiseDraft, *, by: str, now_ms: int
) -> tuple[Task, Promise]:
    """Return the task with another promise.

    Raises:
        Invalid: it could not be checked.
        Refused: already_resolved, given_up, not_owner, too_many_promises, or promise_conflict if
            it contradicts a promise in force.
    """
    task = _worked_on(view, task_id, by=by)
    before = promises_of(task)
    still = [each for each in before if each.withdrawn is None]
    if len(still) >= PROMISES_MAX or len(before) >= _RECORDS_MAX:
        raise Refused(
            f"Task {task.id!r} has {len(still)} promises. The limit is {PROMISES_MAX}.",
            reason="too_many_promises",
            remedy="Withdraw one, or promise only what others build on.",
        )
    number = max((int(each.id.rpartition(".")[2]) for each in before), default=0) + 1
    promise = _drafted(draft, f"{task.id}.{number}", by=by, now_ms=now_ms)
    _refuse_conflicts(view, task, promise)
    return task.with_facts(promises=[*before, promise]), promise


def changed(
    view: View, promise_id: str, draft: PromiseDraft, *, by: str, now_ms: int
) -> tuple[Task, Promise]:
    """Return the task with a promise that says something else. Raises as `made` does."""
    standing = find_promise(view, promise_id)
    task = _worked_on(view, standing.task.id, by=by)
    _refuse_withdrawn(standing)
    after = _drafted(draft, standing.promise.id, by=by, now_ms=now_ms)
    after = after.evolve(version=standing.promise.version + 1)
    _refuse_conflicts(view, task, after)
    return _with(task, after), after


def withdrawn(view: View, promise_id: str, *, by: str, reason: str) -> Task:
    """Return the task with a promise that no longer holds. Raises Refused: not_owner."""
    standing = find_promise(view, promise_id)
    task = task_of(view, standing.task.id)
    _refuse_others(task, Actor.of(view.team, by))
    _refuse_withdrawn(standing)
    return _with(task, standing.promise.evolve(withdrawn=_line(reason) or "withdrawn"))


def relying(
    view: View, promise_id: str, task_id: str, *, by: str, now_ms: int
) -> tuple[Task, Standing]:
    """Return the task that builds on a promise as it is now.

    Raises:
        Refused: promise_gone, own_promise, promise_cycle, promise_conflict, or as `made` does.
    """
    standing = find_promise(view, promise_id)
    task = _worked_on(view, task_id, by=by)
    promise = standing.promise
    _refuse_gone(standing)
    if standing.task.id == task.id:
        raise Refused(
            f"Promise {promise.id} is a promise of task {task.id!r} itself.",
            reason="own_promise",
            remedy="Rely on promises of other tasks. Yours are checked when you hand in.",
        )
    if not _holds(standing):
        # Nobody relied on it, so that another promise could take its place.
        _refuse_conflicts(view, standing.task, promise)
    _refuse_cycle(view, task, standing)
    rows = [each for each in relies_of(task) if each.promise != promise.id]
    if len(rows) >= RELIES_MAX:
        raise Refused(
            f"Task {task.id!r} relies on {len(rows)} promises already.",
            reason="too_many_promises",
            remedy="Drop those that it no longer builds on.",
        )
    row = Reliance.new(promise=promise.id, version=promise.version, by=by, at_ms=now_ms)
    return task.with_facts(relies=[*rows, row]), standing


def dropped(view: View, promise_id: str, task_id: str, *, by: str) -> Task:
    """Return the task that no longer builds on a promise. Raises as `made` does."""
    task = _worked_on(view, task_id, by=by)
    wanted = promise_id.strip().removeprefix("#")
    before = relies_of(task)
    rows = [each for each in before if each.promise != wanted]
    return task if len(rows) == len(before) else task.with_facts(relies=rows or None)


def judged(
    view: View, task_id: str, broken: Mapping[str, str], *, by: str
) -> tuple[Task, list[Promise]]:
    """Return the task with what was found about its promises, and those that are newly broken.

    Raises:
        Refused: not_owner for everybody but its owner and the lead.
    """
    task = task_of(view, task_id)
    _refuse_others(task, Actor.of(view.team, by))
    rows, news = [], []
    for promise in promises_of(task):
        found = broken.get(promise.id)
        if found is not None and promise.broken is None:
            news.append(promise)
        rows.append(promise.evolve(broken=None if found is None else _line(found)))
    return (task if rows == promises_of(task) else task.with_facts(promises=rows)), news


def ended(task: Task, reason: str) -> tuple[Task, list[Promise]]:
    """Return a task that was given up with its promises withdrawn, and those."""
    over = [each for each in _promised(task) if each.withdrawn is None]
    if not over:
        return task, []
    why = _line(f"task #{task.id} was given up: {reason}")
    rows = [
        each if each.withdrawn is not None else each.evolve(withdrawn=why)
        for each in task.facts.promises or ()
    ]
    return task.with_facts(promises=rows), over


def void(task: Task, tasks: Mapping[str, Task]) -> list[str]:
    """Return what is wrong with what a task relies on: withdrawn, changed or gone promises.

    Raises:
        Unreadable: the records are damaged.
    """
    found = []
    for row in relies_of(task):
        promising = tasks.get(row.promise.partition(".")[0])
        known = {} if promising is None else {each.id: each for each in promises_of(promising)}
        promise = known.get(row.promise)
        if promise is None:
            found.append(f"promise {row.promise} is gone with its task")
        elif promise.withdrawn is not None:
            found.append(f"promise {row.promise} was withdrawn: {promise.withdrawn}")
        elif promise.version != row.version:
            found.append(f"promise {row.promise} was changed: it now says {promise.text!r}")
    return found


def refuse_void(task: Task, tasks: Mapping[str, Task]) -> None:
    """Refuse to hand in work that builds on promises that no longer hold.

    Raises:
        Refused: promise_gone.
    """
    found = void(task, tasks)
    if found:
        raise Refused(
            f"Task {task.id!r} is not done: it relies on promises that no longer hold. "
            f"{'; '.join(found)}.",
            reason="promise_gone",
            remedy="Look whether your work still fits. Then rely on the promise as it is now, or "
            "drop it, and complete the task again.",
        )


def _drafted(draft: PromiseDraft, promise_id: str, *, by: str, now_ms: int) -> Promise:
    text = _line(draft.text)
    given = {"signature": draft.signature, "path": draft.path, "command": draft.run}[draft.kind]
    too_long = len(draft.text) > _TEXT_MAX or len(draft.run or "") > _RUN_MAX
    odd = [each for each in (draft.signature, draft.run) if each and "\0" in each]
    beyond = draft.kind != "command" and draft.run is not None
    beyond = beyond or (draft.kind != "signature" and draft.signature is not None)
    if not text or not (given or "").strip() or too_long or odd or beyond:
        raise Invalid(
            f"The promise {draft.text[:_TEXT_MAX]!r} of kind {draft.kind!r} is not valid.",
            remedy=f"Give a text of at most {_TEXT_MAX} characters, and one proof: a signature "
            "with its file, a path, or a command.",
        )
    if draft.kind == "signature":
        if not draft.path or "*" in draft.path or "?" in draft.path:
            raise Invalid(
                f"The signature {draft.signature!r} needs the file that will have it.",
                remedy="Name one file, relative to the top of the project.",
            )
        signatures.check_signature(draft.path, draft.signature or "")
    if draft.path is not None:
        check_pattern(draft.path)
    return Promise.new(
        id=promise_id,
        by=by,
        text=text,
        kind=draft.kind,
        at_ms=now_ms,
        path=draft.path,
        signature=draft.signature,
        run=draft.run,
    )


def _refuse_conflicts(view: View, task: Task, promise: Promise) -> None:
    owner = owner_of(task, view.team.name)
    for each in view.tasks().values():
        if _states(each, "promises"):
            # Damaged promises may say the opposite.
            promises_of(each)
    for other in in_force(view.tasks(), view.team.name):
        own = other.task.id == task.id or (owner is not None and other.owner == owner)
        if other.promise.id == promise.id or not _contradict(other.promise, promise, own=own):
            continue
        who = other.owner or "the lead"
        raise Refused(
            f"Promise {promise.text!r} contradicts {other.named}.",
            reason="promise_conflict",
            remedy=f"Agree with {who} first: send a message, and ask to change or withdraw promise "
            f"{other.promise.id}. Or promise something that leaves it alone.",
        )


def _contradict(one: Promise, other: Promise, *, own: bool) -> bool:
    """Return whether two promises cannot both be kept. Whose they are matters only for paths."""
    if one.kind == other.kind == "signature":
        path, first, second = one.path or "", one.signature or "", other.signature or ""
        return (
            is_same_file(path, other.path or "")
            and signatures.name_of(path, first) == signatures.name_of(path, second)
            and not signatures.agree(path, first, second)
        )
    exclusive = "path" in (one.kind, other.kind) and "command" not in (one.kind, other.kind)
    return exclusive and not own and overlap(one.path or "", other.path or "")


def _refuse_cycle(view: View, task: Task, standing: Standing) -> None:
    """Refuse to let two tasks wait for each other. Raises Refused: promise_cycle."""
    if standing.promise.kind == "path":
        return
    tasks = view.tasks()
    ahead, seen = [standing.task.id], set[str]()
    while ahead:
        at = tasks.get(ahead.pop())
        if at is None or at.id in seen or is_over(at):
            continue
        seen.add(at.id)
        if at.id == task.id:
            raise Refused(
                f"Task {task.id!r} cannot rely on promise {standing.promise.id}: task "
                f"{standing.task.id!r} waits for it already.",
                reason="promise_cycle",
                remedy=f"Put both changes into one task, or agree with {standing.owner} on who "
                "comes first.",
            )
        ahead += [*at.blocked_by, *awaited(at, tasks)]


def awaited(task: Task, tasks: Mapping[str, Task]) -> list[str]:
    """Return the unfinished tasks whose promised work a task builds on. Paths need no waiting."""
    found: list[str] = []
    for row in _relied(task):
        other = tasks.get(row.promise.partition(".")[0])
        if other is None or is_over(other) or other.id in found:
            continue
        kinds = {each.id: each.kind for each in other.facts.promises or ()}
        if kinds.get(row.promise, "path") != "path":
            found.append(other.id)
    return found


def _worked_on(view: View, task_id: str, *, by: str) -> Task:
    task = task_of(view, task_id)
    if task.status == "completed":
        raise Refused(
            f"Task {task.id!r} is completed: its promises cannot change.",
            reason="already_resolved",
            remedy="Make the promise with a task that you still work on.",
        )
    if task.facts.given_up is not None:
        raise Refused(
            f"Task {task.id!r} was given up: {task.facts.given_up}.",
            reason="given_up",
            remedy="Retry it first: bullpen task retry",
        )
    _refuse_others(task, Actor.of(view.team, by))
    return task


def _refuse_others(task: Task, who: Actor) -> None:
    if not (who.lead or who.owns(task)):
        raise Refused(
            f"{who.name!r} cannot change promises of task {task.id!r}: it belongs to "
            f"{owner_of(task, who.team) or 'nobody'!r}.",
            reason="not_owner",
            remedy="Use your own task. Claim it first.",
        )


def _refuse_withdrawn(standing: Standing) -> None:
    if standing.promise.withdrawn is not None:
        raise _gone(standing, f"was withdrawn: {standing.promise.withdrawn}")


def _refuse_gone(standing: Standing) -> None:
    _refuse_withdrawn(standing)
    if standing.task.facts.given_up is not None:
        raise _gone(standing, f"ended: task #{standing.task.id} was given up")
    if standing.promise.kind == "path" and is_over(standing.task):
        raise _gone(standing, f"ended: task #{standing.task.id} is done")


def _gone(standing: Standing, how: str) -> Refused:
    return Refused(
        f"Promise {standing.promise.id} {how}.",
        reason="promise_gone",
        remedy="List the promises that are in force: bullpen promises list",
    )


def _with(task: Task, promise: Promise) -> Task:
    rows = [promise if each.id == promise.id else each for each in promises_of(task)]
    return task.with_facts(promises=rows)


def _line(text: str) -> str:
    return " ".join(text.split())[:_TEXT_MAX]
