"""Complete a task: run its checks, then the hooks, then mark it done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from anyio import to_thread

from bullpen.agents.contracts.call import Call, Rights
from bullpen.agents.contracts.desk import Desk
from bullpen.agents.hooks.lifecycle import AgentHooks
from bullpen.agents.permissions.decide import decide
from bullpen.agents.permissions.rule_language.rule import tool_of
from bullpen.agents.system.run_command import Workplace
from bullpen.agents.work.checks import look
from bullpen.agents.work.tree_of_task import TreeWork
from bullpen.agents.work.until_stored import STORE_S, until_stored
from bullpen.errors import BullpenError, Invalid, Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Check, Task
from bullpen.team.lookup import owner_of
from bullpen.team.tasks.check_rules import is_queued, missing, with_results
from bullpen.team.tasks.rules import Done
from bullpen.team.team import Team

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

        Raises Refused (checks_failed with the output, hook_refused, as `tasks.done` does, or if the
        work cannot be merged), or Unavailable if the work could not be handed in.
        """
        tasks = self.team.tasks
        task = await tasks.provable(task_id, by=self.by, voice=self.voice, attempt=attempt)
        # These results can complete only this attempt, whatever happens meanwhile.
        attempt = task.facts.attempt
        found = await self._looked(task, report)
        task = with_results(task, found)
        failed = failures(task, report=report)
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
        found = []
        for check in task.facts.checks:
            self.tell(check.stated)
            found.append(
                await look(self.place, task, check.stated, report=report, redact=self.redact)
            )
            self.tell(found[-1])
        return found


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
    what = check.run or check.path or check.ref
    return f"{check.name!r} ({check.kind}{f': {what}' if what and what != check.name else ''})"


def _end(check: Check, most: int) -> str:
    detail = check.detail or ""
    return detail if len(detail) <= most else f"[...]{detail[-most:]}"


async def complete(
    desk: Desk, hooks: AgentHooks, work: TreeWork, task_id: str, *, report: str | None
) -> Done:
    """Complete one of the agent's own tasks. Raises Refused as `Proving.complete`."""

    def tell(check: Check) -> None:
        if check.passed is None:
            desk.doing("TaskUpdate", f"#{task_id}: check {check.name}")
        else:
            desk.record(
                "check", task=task_id, name=check.name, passed=check.passed, text=check.detail
            )

    proving = Proving(desk.team, desk.agent, desk, hooks.task_completed, desk.redacted, tell, work)
    done = await proving.complete(task_id, attempt=desk.attempts.get(task_id), report=report)
    if merge := done.task.facts.merge:
        desk.record("handed_in", task=task_id, commit=merge.commit, text=handed_in(done))
    return done


def handed_in(done: Done) -> str | None:
    """A text about the work that was handed in with a task, or None."""
    merge = done.task.facts.merge if is_queued(done.task) else None
    if merge is None:
        return None
    files = done.committed if isinstance(done, Completed) else ()
    several = "s" if len(files) != 1 else ""
    added = f"{len(files)} uncommitted file{several} committed for it, " if files else ""
    return f"{added}handed in as {merge.commit[:7]} to the merge queue"


async def refuse_added(team: Team, task: Task, why: str, *, by: str, voice: Voice) -> NoReturn:
    """Remove a task that was just added and that a hook refused. Raises Refused: hook_refused."""
    await team.tasks.delete(task.id, by=by, voice=voice)
    raise Refused(
        f"The task was not added: {why}",
        reason="hook_refused",
        remedy="Fix that, then add the task again.",
    )


def refuse_without_shell(spec: AgentSpec, checks: Sequence[Check]) -> None:
    """Refuse commands as checks of an agent without Bash. Raises Refused: denied."""
    given = ["Bash"] if spec.tools is None else [tool_of(name) for name in spec.tools]
    has_shell = "Bash" in given and "Bash" not in (spec.disallowed_tools or ())
    commands = [check for check in checks if check.run is not None]
    if commands and not has_shell:
        raise Refused(
            f"You may not use {commands[0].run!r} as a check: you do not have the tool Bash.",
            reason="denied",
            remedy="Use a file, commit or report check, or ask a person to add the command.",
        )


async def refuse_beyond(rights: Rights, checks: Sequence[Check]) -> None:
    """Refuse checks that the agent may not run itself, where nobody can be asked.

    Bullpen would run these commands for the agent. Raises Refused: denied.
    """
    for call in [running(check.run) for check in checks if check.run]:
        ruling = await to_thread.run_sync(decide, call, rights)
        if ruling.effect != "allow":
            raise Refused(
                f"You may not use {call} as a check: {ruling.why}.",
                reason="denied",
                remedy="Add it with TaskCreate, which asks for permission, or ask a person.",
            )


def running(command: str) -> Call:
    """A check's command as a tool call, so that the gate can decide about it."""
    return Call("Bash", {"command": command}, "run")


def refuse_outside(checks: Sequence[Check]) -> None:
    """Refuse file checks outside the project. Raises Invalid.

    An agent that may not read outside must not learn which files exist there.
    """
    for check in checks:
        path = check.path or ""
        if path.startswith(("/", "~")) or ".." in path.split("/"):
            raise Invalid(
                f"The file {path!r} of a check is not in the project.",
                remedy="Name a file relative to your working directory.",
            )
