"""Repeats what a home did to a task under the rules of where the team lives. Pure.

A file tells what a task became, not what was meant. The difference to its earlier state is read as
the operations that cause it: a claim, a release, a new text, a dependency. Its rule decides each
one on the current task, and a refused one does not stop the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from bullpen.errors import BullpenError, NotFound, Refused, Unavailable
from bullpen.fleet.mirror.pending_view import PendingView
from bullpen.fleet.mirror.residents import Residents, changed
from bullpen.protocol.changes import PutTask
from bullpen.protocol.task import Task
from bullpen.team.lookup import find, owner_of, task_of
from bullpen.team.tasks import edges, rules

_OWN_METADATA = frozenset({"bullpen", "_internal"})


@dataclass(slots=True)
class TaskChanges:
    """What one event of a home did to tasks.

    `trusted` says that Bullpen did it, so its facts about tasks can be believed.
    """

    ahead: PendingView
    residents: Residents
    now_ms: int
    trusted: bool
    refused: list[tuple[str, BullpenError]] = field(default_factory=list)
    _given: dict[str, str] = field(default_factory=dict)

    def carry(self, before: Mapping[str, Task], after: Sequence[Task]) -> None:
        """Carry new and changed tasks. New ones come first, because others may depend on them."""
        known = dict(before)
        for task in after:
            if task.id not in known:
                with self._noting(task.id):
                    known[task.id] = self._create(task)
        for task in after:
            if task.id in known:
                self._change(known[task.id], task)

    def delete(self, task_id: str) -> None:
        """Carry the deletion of a task."""
        with self._noting(task_id):
            task = find(self.ahead, task_id)
            if task is None:
                return
            by = self._acting(self._owner(task))
            edges.refuse_deleting(self.ahead, task, by=by, voice="agent")
            self.ahead.put(*edges.delete(self.ahead, task_id)[1])

    @contextmanager
    def _noting(self, task_id: str) -> Iterator[None]:
        try:
            yield
        except Unavailable:
            raise
        except BullpenError as error:
            self.refused.append((task_id, error))

    def _create(self, task: Task) -> Task:
        """Create a task as it was when it was new. Returns it, by its id in the home.

        Another task may have had that id before. The new one then gets the next.
        """
        rules.check_subject(task.subject)
        given = task.id
        if given.isascii() and given.isdecimal():
            if int(given) < self.ahead.next_task_id:
                given = str(self.ahead.next_task_id)
        elif find(self.ahead, given) is not None:
            given = str(self.ahead.next_task_id)
        self._given[task.id] = given
        if task.is_internal:
            self.ahead.put(PutTask(task.evolve(id=given, blocks=[], blocked_by=[])))
            return task
        fresh = task.evolve(status="pending", owner=None, blocks=[], blocked_by=[])
        if not self.trusted:
            fresh = fresh.evolve(metadata=_words_of(task) or None)
        self.ahead.put(PutTask(fresh.evolve(id=given)))
        return fresh

    def _change(self, before: Task, after: Task) -> None:
        task_id = self._given.get(after.id, after.id)
        if find(self.ahead, task_id) is None:
            if before != after:
                gone = Refused(
                    f"Task {task_id!r} was deleted.",
                    reason="task_not_found",
                    remedy="Add a new task if it is still needed.",
                )
                self.refused.append((task_id, gone))
            return
        if after.is_internal:
            # Internal to another program, which alone knows what it means.
            self._put(after.evolve(id=task_id))
            return
        with self._noting(task_id):
            self._edit(task_id, before, after)
        if self.trusted:
            self._state(task_id, before, after)
        self._connect(task_id, before, after)
        with self._noting(task_id):
            self._move(task_id, before, after)

    def _edit(self, task_id: str, before: Task, after: Task) -> None:
        words: dict[str, Any] = {
            name: getattr(after, name)
            for name in ("subject", "description", "active_form")
            if getattr(after, name) != getattr(before, name)
        }
        metadata = changed(_words_of(before), _words_of(after))
        if words or metadata:
            wanted = {"subject": None, "description": None, "active_form": None, **words}
            self._put(rules.edit(self.ahead, task_id, **wanted, metadata=metadata or None))

    def _state(self, task_id: str, before: Task, after: Task) -> None:
        """Carry facts that were decided in the home, under the same rules as here."""
        facts = {
            name: getattr(after.facts, name)
            for name in ("checks", "budget", "lease_until_ms")
            if getattr(after.facts, name) != getattr(before.facts, name)
        }
        if facts:
            self._put(task_of(self.ahead, task_id).with_facts(**facts))

    def _connect(self, task_id: str, before: Task, after: Task) -> None:
        """Carry dependencies. Other programs write both ends, so half of them already exist."""
        for waits, blocker in _new(task_id, before, after, self._given):
            with self._noting(task_id):
                for task in edges.depend(self.ahead, waits, [blocker])[1]:
                    self._put(task)
        for waits, blocker in _new(task_id, after, before, self._given):
            with self._noting(task_id), suppress(NotFound):
                for task in edges.undepend(self.ahead, waits, [blocker])[1]:
                    self._put(task)

    def _move(self, task_id: str, before: Task, after: Task) -> None:
        """Carry another status or owner."""
        owner, was_owner = self._owner(after), self._owner(before)
        if (before.status, was_owner) == (after.status, owner):
            return
        task = task_of(self.ahead, task_id)
        if (task.status, self._owner(task)) == (after.status, owner):
            return
        match after.status:
            case "completed":
                claimant = owner or self._only_resident()
                if task.status == "pending" and claimant is not None:
                    self._claim(task_id, claimant)
                self._complete(task_id, after)
            case "in_progress":
                if before.status == "in_progress" and was_owner is not None:
                    self._release(task_id, was_owner)
                self._claim(task_id, owner)
            case "pending":
                if before.status == "in_progress" or owner is None:
                    self._release(task_id, was_owner)
                if owner is not None:
                    by = self._acting(self._owner(task) or owner)
                    self._put(rules.assign(self.ahead, task_id, owner, by=by))

    def _claim(self, task_id: str, owner: str | None) -> None:
        owner = owner or self._only_resident()
        if owner is None:
            # Some programs record that a task was started, but not by whom.
            task = task_of(self.ahead, task_id)
            if task.status != "pending" or task.owner or rules.open_blockers(task, self.ahead.task):
                raise _taken(task)
            self._put(task.evolve(status="in_progress"))
            return
        if not self.residents.has(self.ahead.team, owner):
            raise _not_here(owner)
        # Other programs let their agents have several tasks at a time.
        self._put(rules.claim(self.ahead, task_id, by=owner, also=True, now_ms=self.now_ms))

    def _release(self, task_id: str, owner: str | None) -> None:
        self._put(rules.release(self.ahead, task_id, by=self._acting(owner)))

    def _complete(self, task_id: str, after: Task) -> None:
        by = self._acting(self._owner(after) or self._owner(task_of(self.ahead, task_id)))
        facts = after.facts
        report = facts.report if self.trusted else None
        if self.trusted and facts.forced is not None:
            done = rules.forced(
                self.ahead,
                task_id,
                by=by,
                voice="human",
                reason=facts.forced.reason,
                report=report,
                now_ms=self.now_ms,
            )
        else:
            checked = (check for check in facts.checks if check.attempt == facts.attempt)
            found = list(checked) if self.trusted else []
            done = rules.done(self.ahead, task_id, by=by, report=report, found=found)
        self._put(done.task)

    def _put(self, task: Task) -> None:
        if self.ahead.task(task.id) != task:
            self.ahead.put(PutTask(task))

    def _owner(self, task: Task) -> str | None:
        return owner_of(task, self.ahead.team.name)

    def _only_resident(self) -> str | None:
        here = self.residents.names(self.ahead.team)
        return here[0] if len(here) == 1 else None

    def _acting(self, owner: str | None) -> str:
        """Return who acted: the task's owner, or else the lead or the only resident here."""
        team = self.ahead.team
        if owner is not None and self.residents.has(team, owner):
            return owner
        acting = self.residents.lead(team) or self._only_resident()
        if acting is None:
            raise _not_here(owner or "its owner")
        return acting


def _words_of(task: Task) -> dict[str, Any]:
    """Return the metadata that anybody may write."""
    return {key: value for key, value in (task.metadata or {}).items() if key not in _OWN_METADATA}


def _new(
    task_id: str, before: Task, after: Task, given: Mapping[str, str]
) -> Iterable[tuple[str, str]]:
    """Return the dependencies that only `after` has, each as dependent and dependency."""
    for blocker in after.blocked_by:
        if blocker not in before.blocked_by:
            yield task_id, given.get(blocker, blocker)
    for waiter in after.blocks:
        if waiter not in before.blocks:
            yield given.get(waiter, waiter), task_id


def _taken(task: Task) -> Refused:
    return Refused(
        f"Task {task.id!r} cannot be started: it is {task.status} or blocked.",
        reason="already_claimed",
        remedy="Take another task.",
    )


def _not_here(name: str) -> Refused:
    return Refused(
        f"{name!r} does not live at this mirror, so nobody can act in its name here.",
        reason="not_here",
        remedy="Do it where that member lives.",
    )
