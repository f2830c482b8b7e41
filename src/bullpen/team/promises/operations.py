"""Promises in the team's records: every operation on them. Each is one commit."""

from __future__ import annotations

from collections.abc import Mapping

from bullpen.protocol.changes import Change, Deliver, PutTask
from bullpen.protocol.record.promise import Promise
from bullpen.protocol.task import Task
from bullpen.store.contract import View
from bullpen.team.operation import operation
from bullpen.team.operation.commit import TeamPart
from bullpen.team.promises import rules
from bullpen.team.promises.at_merge import Promised
from bullpen.team.promises.rules import PromiseDraft, Standing
from bullpen.team.promises.wake import (
    broken_text,
    changed_text,
    withdrawn_text,
    word_to_owner,
    word_to_reliers,
)


class Promises(TeamPart):
    """The promises of one team. `by` is the name of the member that acts."""

    async def all(self) -> list[Standing]:
        """Return the promises in force, by task and number."""
        state = await self._store.read(self._team)
        return rules.in_force(state.tasks, state.team.name)

    async def promised(self) -> Promised:
        """Return the promises as of one moment, for whoever hands in or merges work."""
        state = await self._store.read(self._team)
        return Promised(state.team.name, dict(state.tasks))

    @operation
    async def make(self, task_id: str, draft: PromiseDraft, *, by: str) -> Promise:
        """Promise something with a task, as its owner or the lead. If several promise what
        contradicts each other, exactly one succeeds.

        Raises:
            Refused: promise_conflict, not_owner, already_resolved, given_up, too_many_promises.
            Invalid: it could not be checked.
        """
        now = self._clock()

        def decide(view: View) -> tuple[Promise, list[Change]]:
            task, promise = rules.made(view, task_id, draft, by=by, now_ms=now)
            text = f"Your task #{task.id} now promises {promise.id}: {promise.text!r}."
            told = word_to_owner(view.team, task, text, sender=by, now_ms=now)
            return promise, [PutTask(task), *told]

        return await self._settle(decide, by=by, op="promise.make")

    @operation
    async def change(self, promise_id: str, draft: PromiseDraft, *, by: str) -> Promise:
        """Change a promise. Exactly those who rely on it are told in the same commit.

        Raises as `make` does, or Refused: promise_gone.
        """
        now = self._clock()

        def decide(view: View) -> tuple[Promise, list[Change]]:
            before = rules.find_promise(view, promise_id)
            task, promise = rules.changed(view, promise_id, draft, by=by, now_ms=now)
            told = self._tell(view, before, changed_text(before, promise), by, now)
            text = f"Promise {promise.id} of your task #{task.id} now says {promise.text!r}."
            told += word_to_owner(view.team, task, text, sender=by, now_ms=now)
            return promise, [PutTask(task), *told]

        return await self._settle(decide, by=by, op="promise.change")

    @operation
    async def withdraw(self, promise_id: str, *, by: str, reason: str) -> Task:
        """Withdraw a promise. Exactly those who rely on it are told in the same commit.

        Raises:
            Refused: not_owner for everybody but the owner of its task and the lead; promise_gone.
        """
        now = self._clock()

        def decide(view: View) -> tuple[Task, list[Change]]:
            before = rules.find_promise(view, promise_id)
            task = rules.withdrawn(view, promise_id, by=by, reason=reason)
            told = self._tell(view, before, withdrawn_text(before, reason), by, now)
            text = f"Promise {before.promise.id} of your task #{task.id} was withdrawn."
            told += word_to_owner(view.team, task, text, sender=by, now_ms=now)
            return task, [PutTask(task), *told]

        return await self._settle(decide, by=by, op="promise.withdraw")

    @operation
    async def rely(self, promise_id: str, task_id: str, *, by: str) -> Task:
        """Record that a task builds on a promise as it is now. Its owner is told when it changes.

        Raises:
            Refused: promise_gone, own_promise, promise_cycle, promise_conflict, or as `make` does.
        """
        now = self._clock()

        def decide(view: View) -> tuple[Task, list[Change]]:
            task, _ = rules.relying(view, promise_id, task_id, by=by, now_ms=now)
            return task, [PutTask(task)]

        return await self._settle(decide, by=by, op="promise.rely")

    @operation
    async def drop(self, promise_id: str, task_id: str, *, by: str) -> Task:
        """Record that a task no longer builds on a promise. Raises as `make` does."""

        def decide(view: View) -> tuple[Task, list[Change]]:
            task = rules.dropped(view, promise_id, task_id, by=by)
            return task, [] if view.task(task.id) == task else [PutTask(task)]

        return await self._settle(decide, by=by, op="promise.drop")

    @operation
    async def judge(self, task_id: str, broken: Mapping[str, str], *, by: str) -> Task:
        """Record which promises of a task were found broken, by id and with what was found.

        Those who rely on one are told when it is found broken for the first time.
        """
        now = self._clock()

        def decide(view: View) -> tuple[Task, list[Change]]:
            task, news = rules.judged(view, task_id, broken, by=by)
            if view.task(task_id) == task:
                return task, []
            changes: list[Change] = [PutTask(task)]
            for promise in news:
                standing = rules.find_promise(view, promise.id)
                text = broken_text(standing, broken[promise.id])
                changes += self._tell(view, standing, text, by, now)
            return task, changes

        return await self._settle(decide, by=by, op="promise.judge")

    @staticmethod
    def _tell(view: View, about: Standing, text: str, by: str, now_ms: int) -> list[Deliver]:
        return word_to_reliers(
            view.team, about.promise, about.relied_by, text, sender=by, now_ms=now_ms
        )
