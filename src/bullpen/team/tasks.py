"""The shared task list: every operation on it, each in one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from bullpen.protocol.changes import Change, Deliver, PutTask
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Check, Task
from bullpen.store.base import Problem, View
from bullpen.team import check_rules, edges, relief_rules, rules
from bullpen.team.budget_rules import of_task, rebudgeted
from bullpen.team.decision import Part
from bullpen.team.drafts import Draft, drafted
from bullpen.team.lookup import Actor, no_task, owner_of, task_of
from bullpen.team.merge_rules import HandIn
from bullpen.team.notices import assignment, prompt
from bullpen.team.rules import Done

T = TypeVar("T")
# Inside a class that has a method `list`, the type needs another name.
InOrder: TypeAlias = list[Task]


@dataclass(frozen=True, slots=True)
class Listing:
    """The tasks in id order, and what is there but could not be read."""

    tasks: list[Task]
    problems: tuple[Problem, ...]


class Tasks(Part):
    """The tasks of one team. `by` is the name of the member who acts."""

    async def add(
        self,
        subject: str,
        *,
        by: str,
        description: str = "",
        active_form: str | None = None,
        blocked_by: Sequence[str] = (),
        owner: str | None = None,
        checks: Sequence[Check] = (),
        metadata: Mapping[str, Any] | None = None,
        budget: Mapping[str, float | None] | None = None,
    ) -> Task:
        """Add a task. An owner other than `by` is told in the same commit.

        `budget` is what all who work on it may use together: turns, tokens, usd.

        Raises:
            Refused: it shall wait for a task that does not exist (unknown_task).
            NotFound: the owner is no member.
        """
        draft = Draft(
            subject, description, active_form, blocked_by, owner, checks, metadata, budget
        )
        return (await self.add_many([draft], by=by))[0]

    async def add_many(self, drafts: Sequence[Draft], *, by: str) -> list[Task]:
        """Add several tasks at once, or none. `@0` in `blocked_by` names the first draft."""
        now = self._clock()
        message_ids = [self._new_id() if self._tells(draft, by) else "" for draft in drafts]

        def decide(view: View) -> tuple[list[Task], list[Change]]:
            created, blockers = drafted(view, drafts)
            changes: list[Change] = [PutTask(task) for task in (*created, *blockers)]
            for draft, task, message_id in zip(drafts, created, message_ids, strict=True):
                if draft.owner is not None and message_id:
                    message = assignment(
                        task, team=view.team, by=by, message_id=message_id, now_ms=now
                    )
                    changes.append(Deliver(draft.owner, message, fresh=True))
            return created, changes

        return await self._settle(decide, by=by, op="task.add")

    @staticmethod
    def _tells(draft: Draft, by: str) -> bool:
        return draft.owner is not None and draft.owner != by

    async def edit(
        self,
        task_id: str,
        *,
        by: str,
        subject: str | None = None,
        description: str | None = None,
        active_form: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Task:
        """Change the words of a task; what is None stays as it is.

        Metadata is added to what there is; a key with None is removed.
        """

        def rule(view: View) -> Task:
            return rules.edit(
                view,
                task_id,
                subject=subject,
                description=description,
                active_form=active_form,
                metadata=metadata,
            )

        return await self._put(rule, by=by, op="task.edit")

    async def list(self) -> Listing:
        """All tasks but the bookkeeping ones of other programs."""
        state = await self._store.read(self._team)
        tasks = [task for task in state.tasks.values() if not task.is_internal]
        return Listing(tasks, state.problems)

    async def get(self, task_id: str) -> Task:
        """One task. Raises NotFound."""
        state = await self._store.read(self._team)
        if task_id not in state.tasks:
            raise no_task(task_id, self._team, state.tasks)
        return state.tasks[task_id]

    async def ready(self) -> InOrder:
        """The tasks that anybody could claim now, in id order."""
        state = await self._store.read(self._team)
        return [*rules.ready(state.tasks, team=state.team.name)]

    async def claim(
        self, task_id: str, *, by: str, also: bool = False, lease_s: float | None = None
    ) -> Task:
        """Take a task. Of several claimants exactly one succeeds.

        Raises:
            Refused: task_not_found, already_resolved, already_claimed, given_up, not_capable,
                blocked, a budget of it that is used up, or agent_busy; `also` skips the last.
        """
        now = self._clock()

        def rule(view: View) -> Task:
            return rules.claim(view, task_id, by=by, also=also, now_ms=now, lease_s=lease_s)

        return await self._put(rule, by=by, op="task.claim")

    async def claim_next(
        self, *, by: str, also: bool = False, lease_s: float | None = None
    ) -> Task | None:
        """Take the first task that is ready, or assigned to `by` and not blocked.

        None if there is none. Raises Refused (agent_busy) as `claim` does.
        """
        now = self._clock()

        def decide(view: View) -> tuple[Task | None, list[Change]]:
            waiting = rules.ready(view.tasks(), team=view.team.name, for_owner=by)
            affordable = (task for task in waiting if not of_task(view.team, task))
            first = next(affordable, None)
            if first is None:
                return None, []
            task = rules.claim(view, first.id, by=by, also=also, now_ms=now, lease_s=lease_s)
            return task, [PutTask(task)]

        return await self._settle(decide, by=by, op="task.claim")

    async def done(
        self,
        task_id: str,
        *,
        by: str,
        attempt: int | None = None,
        report: str | None = None,
        found: Sequence[Check] = (),
        work: HandIn | None = None,
    ) -> Done:
        """Complete a task, and say which tasks that unblocked.

        `found` is what its checks found just now in that attempt; it is recorded with it. `work`
        goes to the merge queue: what waits for the task goes on waiting until it is merged.

        Raises:
            Refused: already_resolved, stale_attempt, not_claimed, not_owner or checks_missing.
        """
        now = 0 if work is None else self._clock()

        def decide(view: View) -> tuple[Done, list[Change]]:
            done = rules.done(
                view,
                task_id,
                by=by,
                attempt=attempt,
                report=report,
                found=found,
                work=work,
                now_ms=now,
            )
            return done, [PutTask(done.task)]

        return await self._settle(decide, by=by, op="task.done")

    async def force(
        self,
        task_id: str,
        *,
        by: str,
        reason: str,
        voice: Voice = "agent",
        report: str | None = None,
    ) -> Done:
        """Complete a task by a person's word, without its checks. The reason is kept in it.

        Raises:
            Refused: as `done` does, but for its checks; or not_a_person.
        """
        now = self._clock()

        def decide(view: View) -> tuple[Done, list[Change]]:
            done = rules.forced(
                view, task_id, by=by, voice=voice, reason=reason, report=report, now_ms=now
            )
            return done, [PutTask(done.task)]

        return await self._settle(decide, by=by, op="task.force")

    async def release(self, task_id: str, *, by: str, reason: str | None = None) -> Task:
        """Give a task back, by its owner or the lead."""
        return await self._put(
            lambda view: rules.release(view, task_id, by=by, reason=reason),
            by=by,
            op="task.release",
        )

    async def nudge(
        self, task_id: str, *, by: str, attempt: int, times: int, why: str, text: str
    ) -> Task:
        """Remind the owner of a task that it has come no further, after so many times before.

        Raises:
            Refused: not_stalled, if the task has moved on or somebody else has reminded it.
        """
        now, message_id = self._clock(), self._new_id()

        def decide(view: View) -> tuple[Task, list[Change]]:
            task = relief_rules.nudge(
                view, task_id, attempt=attempt, times=times, why=why, now_ms=now
            )
            owner = owner_of(task, view.team.name)
            changes: list[Change] = [PutTask(task)]
            if owner is not None and view.team.member(owner) is not None:
                message = prompt(text, team=view.team, by=by, message_id=message_id, now_ms=now)
                changes.append(Deliver(owner, message, fresh=True))
            return task, changes

        return await self._settle(decide, by=by, op="task.nudge")

    async def relieve(self, task_id: str, *, by: str, reason: str) -> Task:
        """Take a task away from whoever has it; that member does not get it again."""
        return await self._put(
            lambda view: relief_rules.relieve(view, task_id, reason=reason),
            by=by,
            op="task.relieve",
        )

    async def give_up(self, task_id: str, *, by: str, reason: str) -> Task:
        """Let nobody have a task any more, until somebody has it retried."""
        return await self._put(
            lambda view: relief_rules.give_up(view, task_id, reason=reason),
            by=by,
            op="task.give_up",
        )

    async def retry(self, task_id: str, *, by: str) -> Task:
        """Let a task be tried again that was given up, by anybody."""
        return await self._put(
            lambda view: relief_rules.retry(view, task_id), by=by, op="task.retry"
        )

    async def assign(self, task_id: str, to: str, *, by: str) -> Task:
        """Make a pending task a member's, who is told in the same commit unless it is `by`."""
        now, message_id = self._clock(), self._new_id()

        def decide(view: View) -> tuple[Task, list[Change]]:
            task = rules.assign(view, task_id, to, by=by)
            changes = _changed(view, task)
            if changes and to != by:
                message = assignment(task, team=view.team, by=by, message_id=message_id, now_ms=now)
                changes.append(Deliver(to, message, fresh=True))
            return task, changes

        return await self._settle(decide, by=by, op="task.assign")

    async def depend(self, task_id: str, on: str | Sequence[str], *, by: str) -> Task:
        """Make a task wait for one or several others.

        Raises:
            Refused: unknown_task, self_dependency or cycle.
        """

        def decide(view: View) -> tuple[Task, list[Change]]:
            task, changed = edges.depend(view, task_id, _several(on))
            return task, [PutTask(record) for record in changed]

        return await self._settle(decide, by=by, op="task.depend")

    async def undepend(self, task_id: str, on: str | Sequence[str], *, by: str) -> Task:
        """Let a task no longer wait for one or several others."""

        def decide(view: View) -> tuple[Task, list[Change]]:
            task, changed = edges.undepend(view, task_id, _several(on))
            return task, [PutTask(record) for record in changed]

        return await self._settle(decide, by=by, op="task.undepend")

    async def delete(self, task_id: str, *, by: str, voice: Voice = "agent") -> Task:
        """Remove a task and every reference to it. Its id is never given again.

        Raises:
            Refused: it was begun and has checks that an agent shall not get rid of (checks_fixed).
        """

        def decide(view: View) -> tuple[Task, list[Change]]:
            who = Actor.of(view.team, by)
            check_rules.refuse_deletion(task_of(view, task_id), who, voice=voice)
            return edges.delete(view, task_id)

        return await self._settle(decide, by=by, op="task.delete")

    async def renew(self, task_id: str, *, by: str, attempt: int, lease_s: float) -> Task:
        """Keep a claimed task for `lease_s` more seconds from now."""
        now = self._clock()

        def rule(view: View) -> Task:
            return rules.renew(view, task_id, by=by, attempt=attempt, now_ms=now, lease_s=lease_s)

        return await self._put(rule, by=by, op="task.renew")

    async def rebudget(
        self, task_id: str, *, by: str, voice: Voice = "agent", **changes: float | None
    ) -> Task:
        """Change what may be used for a task: turns, tokens, usd; None takes a limit away.

        Raises:
            Refused: not_a_person.
            Invalid: an amount that is none.
        """
        return await self._put(
            lambda view: rebudgeted(task_of(view, task_id), voice, changes),
            by=by,
            op="task.budget",
        )

    async def expire(self, *, by: str) -> InOrder:
        """Release every task in progress whose lease is over."""
        now = self._clock()

        def decide(view: View) -> tuple[list[Task], list[Change]]:
            tasks = rules.expired(view, now_ms=now)
            return tasks, [PutTask(task) for task in tasks]

        return await self._settle(decide, by=by, op="task.expire")

    async def restate(
        self, task_id: str, checks: Sequence[Check], *, by: str, voice: Voice = "agent"
    ) -> Task:
        """Let other checks prove a task done, in place of those it has; none of them has passed.

        `voice` says who speaks in the name of `by`.

        Raises:
            Refused: already_resolved, or checks_fixed for its owner and all other agents but the
                lead.
        """
        return await self._put(
            lambda view: rules.restate(view, task_id, checks, by=by, voice=voice),
            by=by,
            op="task.restate",
        )

    async def provable(self, task_id: str, *, by: str, attempt: int | None = None) -> Task:
        """The task, if `by` could complete it now but for its checks.

        Raises:
            Refused: as `done` does, but for its checks.
        """
        return await self._put(
            lambda view: rules.provable(view, task_id, by=by, attempt=attempt),
            by=by,
            op="task.check",
        )

    async def record_checks(
        self, task_id: str, found: Sequence[Check], *, by: str, attempt: int
    ) -> Task:
        """Record what a task's checks found in an attempt: all of it, or nothing.

        Raises:
            Refused: already_resolved, not_owner, or stale_attempt if it is at another by now.
        """
        return await self._put(
            lambda view: rules.record_checks(view, task_id, found, by=by, attempt=attempt),
            by=by,
            op="task.check",
        )

    async def _put(self, rule: Callable[[View], Task], *, by: str, op: str) -> Task:
        def decide(view: View) -> tuple[Task, list[Change]]:
            task = rule(view)
            return task, _changed(view, task)

        return await self._settle(decide, by=by, op=op)


def _several(ids: str | Sequence[str]) -> Sequence[str]:
    return [ids] if isinstance(ids, str) else ids


def _changed(view: View, task: Task) -> list[Change]:
    return [] if view.task(task.id) == task else [PutTask(task)]
