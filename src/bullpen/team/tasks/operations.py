"""The shared task list: every operation on it. Each is one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

from bullpen.by_name import load
from bullpen.protocol.changes import Change, Deliver, PutTask
from bullpen.protocol.names import LEAD
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Check, Task
from bullpen.store.contract import Problem, View
from bullpen.team.budget.rules import of_task, rebudgeted
from bullpen.team.lookup import leads, no_task, owner_of, task_of
from bullpen.team.mail.operations import assignment, new_message
from bullpen.team.operation import operation
from bullpen.team.operation.commit import TeamPart
from bullpen.team.tasks import edges, lease_rules, rules, stall_changes
from bullpen.team.tasks.drafts import Draft, drafted
from bullpen.team.tasks.merge_rules import HandIn
from bullpen.team.tasks.rules import Done

T = TypeVar("T")
# A class with a method `list` needs another name for the type.
InOrder: TypeAlias = list[Task]


@dataclass(frozen=True, slots=True)
class Listing:
    """The tasks in id order, and the records that could not be read."""

    tasks: list[Task]
    problems: tuple[Problem, ...]


class Tasks(TeamPart):
    """The tasks of one team. `by` is the name of the member that acts."""

    @operation
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
        """Add a task. If the owner is not `by`, it is told in the same commit.

        `budget` is what all who work on it may use together: turns, tokens, usd.

        Raises:
            Refused: it depends on a task that does not exist (unknown_task).
            NotFound: the owner is not a member.
        """
        draft = Draft(
            subject, description, active_form, blocked_by, owner, checks, metadata, budget
        )
        return (await self.add_many([draft], by=by))[0]

    @operation
    async def add_many(
        self, drafts: Sequence[Draft], *, by: str, first: str | None = None, dry: bool = False
    ) -> list[Task]:
        """Add several tasks at once, or none. `@0` in `blocked_by` names the first draft.

        Raises Conflict if the first id is not `first`. With `dry`, they are only returned.
        """
        now = self._clock()
        message_ids = ["" if each.owner in (None, by) else self._new_id() for each in drafts]

        def decide(view: View) -> tuple[list[Task], list[Change]]:
            created, blockers = drafted(view, drafts, first=first)
            if dry:
                return created, []
            changes: list[Change] = [PutTask(task) for task in (*created, *blockers)]
            for draft, task, message_id in zip(drafts, created, message_ids, strict=True):
                if draft.owner is not None and message_id:
                    message = assignment(
                        task, team=view.team, sender=by, message_id=message_id, now_ms=now
                    )
                    changes.append(Deliver(draft.owner, message, fresh=True))
            return created, changes

        return await self._settle(decide, by=by, op="task.add")

    @operation
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
        """Change the texts of a task. None leaves a field as it is.

        Metadata is merged into the existing metadata; a key with None is removed.
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
        """Return all tasks except other programs' internal ones."""
        state = await self._store.read(self._team)
        tasks = [task for task in state.tasks.values() if not task.is_internal]
        return Listing(tasks, state.problems)

    async def get(self, task_id: str) -> Task:
        """Return one task. Raises NotFound."""
        state = await self._store.read(self._team)
        if task_id not in state.tasks:
            raise no_task(task_id, self._team, state.tasks)
        return state.tasks[task_id]

    async def ready(self) -> InOrder:
        """Return the tasks that anybody could claim now, in id order."""
        state = await self._store.read(self._team)
        return [*rules.ready(state.tasks, team=state.team.name)]

    @operation
    async def claim(
        self, task_id: str, *, by: str, also: bool = False, lease_s: float | None = None
    ) -> Task:
        """Claim a task. If several members try, exactly one succeeds.

        Raises:
            Refused: task_not_found, already_resolved, already_claimed, given_up, not_capable,
                blocked, a used-up budget of the task, or agent_busy; `also` skips the last.
        """
        now = self._clock()

        def rule(view: View) -> Task:
            return rules.claim(view, task_id, by=by, also=also, now_ms=now, lease_s=lease_s)

        return await self._put(rule, by=by, op="task.claim")

    @operation
    async def claim_next(
        self, *, by: str, also: bool = False, lease_s: float | None = None
    ) -> Task | None:
        """Claim the first task that is ready, or assigned to `by` and not blocked.

        Returns None if there is none. Raises Refused (agent_busy) as `claim` does.
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

    @operation
    async def done(
        self,
        task_id: str,
        *,
        by: str,
        voice: Voice = "agent",
        attempt: int | None = None,
        report: str | None = None,
        found: Sequence[Check] = (),
        work: HandIn | None = None,
    ) -> Done:
        """Complete a task, and return the tasks that this unblocked.

        A pending task that `by` could claim is claimed and completed in one commit.
        `found` is what its checks just found in that attempt; it is recorded too. `work` goes to
        the merge queue, and tasks that depend on this one stay blocked until it is merged.

        Raises:
            Refused: plan_mode, already_resolved, stale_attempt, not_claimed, as `claim` does,
                not_owner or checks_missing.
        """
        now = self._clock()

        def decide(view: View) -> tuple[Done, list[Change]]:
            done = rules.done(
                view,
                task_id,
                by=by,
                voice=voice,
                attempt=attempt,
                report=report,
                found=found,
                work=work,
                now_ms=now,
            )
            return done, [PutTask(done.task)]

        return await self._settle(decide, by=by, op="task.done")

    @operation
    async def force(
        self,
        task_id: str,
        *,
        by: str,
        reason: str,
        voice: Voice = "agent",
        report: str | None = None,
    ) -> Done:
        """Complete a task without its checks, on a person's word. The reason is stored with it.

        Raises:
            Refused: as `done` does except for the checks, or not_a_person.
        """
        now = self._clock()

        def decide(view: View) -> tuple[Done, list[Change]]:
            done = rules.forced(
                view, task_id, by=by, voice=voice, reason=reason, report=report, now_ms=now
            )
            return done, [PutTask(done.task)]

        return await self._settle(decide, by=by, op="task.force")

    @operation
    async def release(
        self,
        task_id: str,
        *,
        by: str,
        reason: str | None = None,
        text: str | None = None,
        summary: str | None = None,
    ) -> Task:
        """Give a task back, as its owner or the lead.

        With `text`, the lead gets it as a message in the same commit, unless `by` is the lead.
        """
        now, message_id = self._clock(), self._new_id()

        def decide(view: View) -> tuple[Task, list[Change]]:
            task = stall_changes.give_back(view, task_id, by=by, reason=reason)
            changes = _changed(view, task)
            if changes and text is not None and not leads(view.team, by):
                message = new_message(
                    text,
                    team=view.team,
                    sender=by,
                    message_id=message_id,
                    now_ms=now,
                    summary=summary,
                )
                changes.append(Deliver(LEAD, message, fresh=True))
            return task, changes

        return await self._settle(decide, by=by, op="task.release")

    @operation
    async def nudge(
        self, task_id: str, *, by: str, attempt: int, times: int, why: str, text: str
    ) -> Task:
        """Nudge the owner of a stalled task that was nudged this many times before, as the lead.

        Raises Refused: not_lead; or not_stalled, if it made progress or somebody else nudged.
        """
        now, message_id = self._clock(), self._new_id()

        def decide(view: View) -> tuple[Task, list[Change]]:
            task = stall_changes.nudge(
                view, task_id, attempt=attempt, times=times, why=why, now_ms=now
            )
            owner = owner_of(task, view.team.name)
            changes: list[Change] = [PutTask(task)]
            if owner is not None and view.team.member(owner) is not None:
                message = new_message(
                    text, team=view.team, sender=by, message_id=message_id, now_ms=now
                )
                changes.append(Deliver(owner, message, fresh=True))
            return task, changes

        return await self._settle(decide, by=by, op="task.nudge")

    @operation
    async def relieve(self, task_id: str, *, by: str, reason: str) -> Task:
        """Take a task away from its owner, who does not get it again, as the lead."""
        return await self._put(
            lambda view: stall_changes.relieve(view, task_id, reason=reason),
            by=by,
            op="task.relieve",
        )

    @operation
    async def give_up(self, task_id: str, *, by: str, reason: str) -> Task:
        """Stop offering a task to anyone until it is retried, as its owner or the lead."""
        now = self._clock()

        def decide(view: View) -> tuple[Task, list[Change]]:
            task = stall_changes.give_up(view, task_id, by=by, reason=reason)
            end = load("bullpen.team.promises.wake:end_with")
            return task, [*end(view, task, reason, by=by, now_ms=now)]

        return await self._settle(decide, by=by, op="task.give_up")

    @operation
    async def retry(self, task_id: str, *, by: str) -> Task:
        """Offer a task that was given up to everybody again, and those that wait for it."""

        def decide(view: View) -> tuple[Task, list[Change]]:
            again = stall_changes.retry(view, task_id)
            return again[0], [change for task in again for change in _changed(view, task)]

        return await self._settle(decide, by=by, op="task.retry")

    @operation
    async def assign(self, task_id: str, to: str, *, by: str) -> Task:
        """Assign a pending task to a member, who is told in the same commit unless it is `by`."""
        now, message_id = self._clock(), self._new_id()

        def decide(view: View) -> tuple[Task, list[Change]]:
            task = rules.assign(view, task_id, to, by=by)
            again = stall_changes.waiting_again(view, task_id)
            changes = [change for each in (task, *again) for change in _changed(view, each)]
            if changes and to != by:
                message = assignment(
                    task, team=view.team, sender=by, message_id=message_id, now_ms=now
                )
                changes.append(Deliver(to, message, fresh=True))
            return task, changes

        return await self._settle(decide, by=by, op="task.assign")

    @operation
    async def depend(self, task_id: str, on: str | Sequence[str], *, by: str) -> Task:
        """Make a task depend on one or more others.

        Raises:
            Refused: unknown_task, self_dependency or cycle.
        """

        def decide(view: View) -> tuple[Task, list[Change]]:
            task, changed = edges.depend(view, task_id, _several(on))
            return task, [PutTask(record) for record in changed]

        return await self._settle(decide, by=by, op="task.depend")

    @operation
    async def undepend(self, task_id: str, on: str | Sequence[str], *, by: str) -> Task:
        """Remove one or more dependencies of a task."""

        def decide(view: View) -> tuple[Task, list[Change]]:
            task, changed = edges.undepend(view, task_id, _several(on))
            return task, [PutTask(record) for record in changed]

        return await self._settle(decide, by=by, op="task.undepend")

    @operation
    async def delete(self, task_id: str, *, by: str, voice: Voice = "agent") -> Task:
        """Delete a task and every reference to it. Its id is never used again.

        Raises Refused: not_owner, or checks_fixed for a started task whose checks bind an agent.
        """
        now = self._clock()

        def decide(view: View) -> tuple[Task, list[Change]]:
            task = task_of(view, task_id)
            edges.refuse_deleting(view, task, by=by, voice=voice)
            deleted, changes = edges.delete(view, task_id)
            words_of_deletion = load("bullpen.team.promises.wake:words_of_deletion")
            return deleted, [*changes, *words_of_deletion(view, task, by=by, now_ms=now)]

        return await self._settle(decide, by=by, op="task.delete")

    @operation
    async def renew(self, task_id: str, *, by: str, attempt: int, lease_s: float) -> Task:
        """Renew the lease of a claimed task for `lease_s` seconds from now."""
        now = self._clock()

        def rule(view: View) -> Task:
            return rules.renew(view, task_id, by=by, attempt=attempt, now_ms=now, lease_s=lease_s)

        return await self._put(rule, by=by, op="task.renew")

    @operation
    async def rebudget(
        self, task_id: str, *, by: str, voice: Voice = "agent", **changes: float | None
    ) -> Task:
        """Change the budget of a task: turns, tokens, usd. None removes a limit.

        Raises:
            Refused: not_a_person.
            Invalid: an amount is not valid.
        """
        return await self._put(
            lambda view: rebudgeted(task_of(view, task_id), voice, changes),
            by=by,
            op="task.budget",
        )

    @operation
    async def expire(self, *, by: str, over: dict[str, int] | None = None) -> InOrder:
        """Release every task in progress whose lease has expired.

        With `over`, only the tasks that still have these leases: ids and `lease_until_ms`. A lead
        that watches its team knows better than a clock which leases are over.
        """
        now = self._clock()

        def decide(view: View) -> tuple[list[Task], list[Change]]:
            tasks = lease_rules.expired(view, by=by, now_ms=now, over=over)
            return tasks, [PutTask(task) for task in tasks]

        return await self._settle(decide, by=by, op="task.expire")

    @operation
    async def restate(
        self, task_id: str, checks: Sequence[Check], *, by: str, voice: Voice = "agent"
    ) -> Task:
        """Replace the checks of a task. None of the new ones has passed.

        `voice` says who acts in the name of `by`.

        Raises Refused: already_resolved, or checks_fixed for its owner and agents but the lead.
        """
        return await self._put(
            lambda view: rules.restate(view, task_id, checks, by=by, voice=voice),
            by=by,
            op="task.restate",
        )

    @operation
    async def provable(
        self, task_id: str, *, by: str, voice: Voice = "agent", attempt: int | None = None
    ) -> Task:
        """Return the task if `by` could complete it now, apart from its checks.

        A pending task is returned as `done` would claim it; nothing is stored.

        Raises:
            Refused: as `done` does, except for the checks.
        """
        now = self._clock()

        def decide(view: View) -> tuple[Task, list[Change]]:
            task = rules.provable(view, task_id, by=by, voice=voice, attempt=attempt, now_ms=now)
            return task, []

        return await self._settle(decide, by=by, op="task.check")

    @operation
    async def record_checks(
        self,
        task_id: str,
        found: Sequence[Check],
        *,
        by: str,
        voice: Voice = "agent",
        attempt: int,
    ) -> Task:
        """Record all results of a task's checks in one attempt, or none.

        Raises:
            Refused: plan_mode, already_resolved, not_owner, or stale_attempt if a newer attempt
                has started.
        """
        kept = partial(rules.record_checks, by=by, voice=voice, attempt=attempt)
        return await self._put(lambda view: kept(view, task_id, found), by=by, op="task.check")

    async def _put(self, rule: Callable[[View], Task], *, by: str, op: str) -> Task:
        def decide(view: View) -> tuple[Task, list[Change]]:
            task = rule(view)
            return task, _changed(view, task)

        return await self._settle(decide, by=by, op=op)


def _several(ids: str | Sequence[str]) -> Sequence[str]:
    return [ids] if isinstance(ids, str) else ids


def _changed(view: View, task: Task) -> list[Change]:
    return [] if view.task(task.id) == task else [PutTask(task)]
