"""Prove a task done: run its checks, then the hooks, then mark it done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bullpen.agents.work.until_stored import STORE_S, until_stored
from bullpen.by_name import load
from bullpen.errors import BullpenError, Refused
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Check, Task
from bullpen.team.lookup import owner_of
from bullpen.team.tasks.check_rules import missing, with_results
from bullpen.team.tasks.rules import Done
from bullpen.team.team import Team

if TYPE_CHECKING:
    # Tasks without checks and worktrees are completed without what runs commands and git.
    from bullpen.agents.system.run_command import Workplace
    from bullpen.agents.work.tree_of_task import TreeWork

_REVIEWS = "bullpen.agents.work.reviews"

_OUTPUT_CHARS_MAX = 12_000
"""How many characters of output of all failed checks go into a refusal."""


@dataclass(frozen=True, slots=True)
class Completed(Done):
    """A completed task, and the files that Bullpen committed for its owner."""

    committed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Proving:
    """Runs the checks of a member's tasks and completes them.

    `tell` gets each check twice: before it runs, without a result, and when it is over.
    """

    team: Team
    by: str
    place: Workplace
    # Why the task is not done although its checks passed, if a hook refuses.
    gate: Callable[[Task], Awaitable[str | None]]
    redact: Callable[[str], str]
    tell: Callable[[Check], object]
    # The worktree with the work, if it is to be merged.
    work: TreeWork | None = None
    # Who acts in the name of `by`.
    voice: Voice = "agent"

    async def check(
        self, task_id: str, *, attempt: int | None = None, report: str | None = None
    ) -> Task:
        """Run all checks of a task and record their results in one commit.

        All checks run, even after one failed; if this is interrupted, nothing is recorded. Raises
        Refused if the task is done or no longer the caller's (stale_attempt, not_owner), or if the
        caller is planning (plan_mode).
        """
        task = await self.team.tasks.get(task_id)
        attempt = task.facts.attempt if attempt is None else attempt
        # Do not run checks if their results could not be recorded.
        await self._record(task_id, [], attempt)
        found = await self._looked(task, report)
        return await self._record(task_id, found, attempt)

    async def complete(
        self, task_id: str, *, attempt: int | None = None, report: str | None = None
    ) -> Done:
        """Complete a task if its checks pass and no hook refuses. Records the results.

        A pending task that the member could claim is claimed with its completion. If that is
        refused, it stays as it was.

        Raises Refused (checks_failed with the output, promise_broken, promise_gone, hook_refused,
        as `tasks.done` does, or if the work cannot be merged), or Unavailable if the work could not
        be handed in.
        """
        tasks = self.team.tasks
        task = await tasks.provable(task_id, by=self.by, voice=self.voice, attempt=attempt)
        # These results can complete only this attempt, whatever happens meanwhile.
        attempt = task.facts.attempt
        if task.facts.has("reviews"):
            refuse = load(f"{_REVIEWS}:refuse_undecided")
            await refuse(self.team, task, by=self.by, voice=self.voice)
        found = await self._looked(task, report)
        task = with_results(task, found)
        failed = failures(task, report=report)
        if not failed:
            await self._keep_promises(task)
        why = None if failed else await self.gate(task)
        if not failed and why is None:
            return await self._done(task, found, report)
        if not await self._is_unclaimed(task_id, attempt):
            # Raises if the task has another owner by now; the results are then dropped.
            await self._record(task_id, found, attempt)
        if failed:
            raise refusal(task, failed)
        raise Refused(
            f"Task {task_id!r} is not done: {why}",
            reason="hook_refused",
            remedy="Fix that, then complete the task again.",
        )

    async def _done(self, task: Task, found: Sequence[Check], report: str | None) -> Done:
        """Complete a task whose checks and hooks passed, and hand in its work."""
        tasks, attempt = self.team.tasks, task.facts.attempt
        try:
            handed = None if self.work is None else await self.work.hand_in(task)
            if handed is not None and any(check.kind == "review" for check in found):
                await load(f"{_REVIEWS}:refuse_changed")(self.team, task, handed, self.place)
        except BullpenError:
            # Work that waits for a person may have no owner, and a pending task has none yet.
            with suppress(Refused):
                await self._record(task.id, found, attempt)
            raise
        work = None if handed is None else handed.work
        done = await until_stored(
            lambda: tasks.done(
                task.id,
                by=self.by,
                voice=self.voice,
                attempt=attempt,
                report=report,
                found=found,
                work=work,
            ),
            tell=lambda _: None,
            within_s=STORE_S,
            was_done=lambda: self._was_done(task.id, attempt),
        )
        committed = () if handed is None else tuple(handed.committed)
        return Completed(done.task, done.unblocked, committed)

    async def _keep_promises(self, task: Task) -> None:
        """Refuse work that breaks its own promises, or that relies on what no longer holds.

        Those who rely on a broken promise are told, once. Raises Refused (promise_broken,
        promise_gone).
        """
        if not (task.facts.has("promises") or task.facts.has("relies")):
            return
        promised = await self.team.promises.promised()
        load("bullpen.team.promises.rules:refuse_void")(task, promised.tasks)
        broken_promises = load("bullpen.agents.work.promises:broken_promises")
        broken = await broken_promises(self.place, task, redact=self.redact, tell=self.tell)
        known = any(each.broken for each in task.facts.promises or ())
        if broken or known:
            # A task that is claimed with its completion is not the caller's yet.
            with suppress(Refused):
                await self.team.promises.judge(task.id, broken, by=self.by)
        if broken:
            raise load("bullpen.team.promises.at_merge:PromisesBroken")(task.id, broken)

    async def _is_unclaimed(self, task_id: str, attempt: int) -> bool:
        """Whether the attempt would begin with its completion; then no results are kept."""
        task = await self.team.tasks.get(task_id)
        return task.status == "pending" and task.facts.attempt < attempt

    async def _was_done(self, task_id: str, attempt: int) -> Done | None:
        """The task if this attempt has completed it, whatever the store said."""
        task = await self.team.tasks.get(task_id)
        ours = owner_of(task, self.team.name) == self.by and task.facts.attempt == attempt
        return Done(task, ()) if ours and task.status == "completed" else None

    async def _record(self, task_id: str, found: Sequence[Check], attempt: int) -> Task:
        return await self.team.tasks.record_checks(
            task_id, found, by=self.by, voice=self.voice, attempt=attempt
        )

    async def _looked(self, task: Task, report: str | None) -> list[Check]:
        found: list[Check] = []
        # A review costs most, and its reviewer sees what the others found.
        for check in sorted(task.facts.checks, key=lambda check: check.kind == "review"):
            self.tell(check.stated)
            found.append(await self._look(task, check.stated, report, found))
            self.tell(found[-1])
        return found

    async def _look(
        self, task: Task, check: Check, report: str | None, found: Sequence[Check]
    ) -> Check:
        if check.kind == "review":
            looked: Check = await load(f"{_REVIEWS}:review")(
                self.team,
                self.place,
                task,
                check,
                by=self.by,
                voice=self.voice,
                found=tuple(found),
                redact=self.redact,
            )
            return looked
        look: Callable[..., Awaitable[Check]] = load("bullpen.agents.work.checks:look")
        return await look(self.place, task, check, report=report, redact=self.redact)


def failures(task: Task, *, report: str | None = None) -> list[Check]:
    """The checks of a task that have not passed in this attempt."""
    names = missing(task, report=report)
    return [check for check in task.facts.checks if check.name in names]


def refusal(task: Task, failed: Sequence[Check]) -> Refused:
    """The refusal for a task whose checks failed, with their output."""
    most = _OUTPUT_CHARS_MAX // len(failed)
    shown = "\n\n".join(f"Check {_named(check)} failed: {_end(check, most)}" for check in failed)
    return Refused(
        f"Task {task.id!r} is not done: {len(failed)} of its {len(task.facts.checks)} checks "
        f"failed.\n\n{shown}\n\nThe task stays open.",
        reason="checks_failed",
        remedy="Make the checks pass, then complete the task again. All checks run each time.",
    )


def _named(check: Check) -> str:
    what = check.by if check.kind == "review" else check.run or check.path or check.ref
    return f"{check.name!r} ({check.kind}{f': {what}' if what and what != check.name else ''})"


def _end(check: Check, most: int) -> str:
    detail = check.detail or ""
    return detail if len(detail) <= most else f"[...]{detail[-most:]}"
