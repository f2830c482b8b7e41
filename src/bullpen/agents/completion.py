"""Completing a task: its checks are run by the runtime, then the hooks, then it is done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from anyio import to_thread

from bullpen.agents.checking import look
from bullpen.agents.drivers.base import Desk
from bullpen.agents.hooking import Hooking
from bullpen.agents.policy.call import Call, Rights
from bullpen.agents.policy.decide import decide
from bullpen.agents.policy.rules import tool_of
from bullpen.agents.tools.commands import Workplace
from bullpen.agents.tree_work import TreeWork
from bullpen.errors import BullpenError, Invalid, Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.merge import merge_of
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Check, Task
from bullpen.team.check_rules import is_queued, missing, with_results
from bullpen.team.rules import Done
from bullpen.team.team import Team

_OUTPUT_CHARS_MAX = 12_000
"""So much output of all failed checks together goes into a refusal."""


@dataclass(frozen=True, slots=True)
class Completed(Done):
    """A task that is completed, and the files that code committed for whoever had it."""

    committed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Proving:
    """Whose task is to be proven done, and where its checks are run.

    `tell` hears of each check before it begins, with no result, and when it is over.
    """

    team: Team
    by: str
    place: Workplace
    # Why the task is not done although its checks passed, if somebody's hooks say so.
    gate: Callable[[Task], Awaitable[str | None]]
    redact: Callable[[str], str]
    tell: Callable[[Check], object]
    # The tree that the work is in, if it is to be merged.
    work: TreeWork | None = None

    async def check(
        self, task_id: str, *, attempt: int | None = None, report: str | None = None
    ) -> Task:
        """Run all checks of a task, and record what they found in one commit.

        All are run, also after one that failed, so that everything is known at once. When this is
        cancelled or its process dies, nothing is recorded.

        Raises:
            Refused: the task is done, or the caller's no more (stale_attempt, not_owner).
        """
        task = await self.team.tasks.get(task_id)
        attempt = task.facts.attempt if attempt is None else attempt
        # Nothing is run for somebody whose results could not be recorded.
        await self.team.tasks.record_checks(task_id, [], by=self.by, attempt=attempt)
        found = await self._looked(task, report)
        return await self.team.tasks.record_checks(task_id, found, by=self.by, attempt=attempt)

    async def complete(
        self, task_id: str, *, attempt: int | None = None, report: str | None = None
    ) -> Done:
        """Complete a task whose checks pass, unless a hook refuses. What was found is recorded.

        Raises:
            Refused: checks_failed with the output, hook_refused, or whatever `tasks.done` refuses;
                or what was done is not fit to be merged.
            Unavailable: what was done could not be handed in.
        """
        tasks = self.team.tasks
        task = await tasks.provable(task_id, by=self.by, attempt=attempt)
        # Whatever happens meanwhile, only this attempt can be completed by what is found now.
        attempt = task.facts.attempt
        found = await self._looked(task, report)
        task = with_results(task, found)
        failed = failures(task, report=report)
        why = None if failed else await self.gate(task)
        if not failed and why is None:
            return await self._done(task, found, report)
        # If the task is somebody else's by now, this says so, and what was found is nobody's.
        await tasks.record_checks(task_id, found, by=self.by, attempt=attempt)
        if failed:
            raise refusal(task, failed)
        raise Refused(
            f"Task {task_id!r} is not done: {why}", reason="hook_refused", remedy="See to that."
        )

    async def _done(self, task: Task, found: Sequence[Check], report: str | None) -> Done:
        """Complete a task that nothing speaks against, with the work that was done for it."""
        tasks, attempt = self.team.tasks, task.facts.attempt
        try:
            handed = None if self.work is None else await self.work.hand_in(task)
        except BullpenError:
            await tasks.record_checks(task.id, found, by=self.by, attempt=attempt)
            raise
        work = None if handed is None else handed.work
        done = await tasks.done(
            task.id, by=self.by, attempt=attempt, report=report, found=found, work=work
        )
        committed = () if handed is None else tuple(handed.committed)
        return Completed(done.task, done.unblocked, committed)

    async def _looked(self, task: Task, report: str | None) -> list[Check]:
        found = []
        for check in task.facts.all_checks:
            self.tell(check.stated)
            found.append(
                await look(self.place, task, check.stated, report=report, redact=self.redact)
            )
            self.tell(found[-1])
        return found


def failures(task: Task, *, report: str | None = None) -> list[Check]:
    """The checks of a task that did not pass in this attempt."""
    names = missing(task, report=report)
    return [check for check in task.facts.all_checks if check.name in names]


def refusal(task: Task, failed: Sequence[Check]) -> Refused:
    """What whoever wanted to complete a task is told: which checks failed, and how."""
    most = _OUTPUT_CHARS_MAX // len(failed)
    shown = "\n\n".join(f"Check {_named(check)} failed: {_end(check, most)}" for check in failed)
    return Refused(
        f"Task {task.id!r} is not done: {len(failed)} of its {len(task.facts.all_checks)} checks "
        f"failed.\n\n{shown}\n\nThe task stays open.",
        reason="checks_failed",
        remedy="Make them pass, then complete it again. They are run anew each time.",
    )


def _named(check: Check) -> str:
    what = check.run or check.path or check.ref
    return f"{check.name!r} ({check.kind}{f': {what}' if what and what != check.name else ''})"


def _end(check: Check, most: int) -> str:
    detail = check.detail or ""
    return detail if len(detail) <= most else f"[...]{detail[-most:]}"


async def complete(
    desk: Desk, hooks: Hooking, work: TreeWork, task_id: str, *, report: str | None
) -> Done:
    """Complete a task of an agent's own.

    Raises:
        Refused: checks_failed, hook_refused, or whatever `tasks.done` refuses.
    """

    def tell(check: Check) -> None:
        if check.passed is None:
            desk.doing("TaskUpdate", f"#{task_id}: check {check.name}")
        else:
            desk.record(
                "check", task=task_id, name=check.name, passed=check.passed, text=check.detail
            )

    proving = Proving(desk.team, desk.agent, desk, hooks.task_completed, desk.redacted, tell, work)
    done = await proving.complete(task_id, attempt=desk.attempts.get(task_id), report=report)
    if merge := merge_of(done.task):
        desk.record("handed_in", task=task_id, commit=merge.commit, text=handed_in(done))
    return done


def handed_in(done: Done) -> str | None:
    """What whoever completed a task is told of the work that was handed in with it."""
    merge = merge_of(done.task) if is_queued(done.task) else None
    if merge is None:
        return None
    files = done.committed if isinstance(done, Completed) else ()
    several = "s" if len(files) != 1 else ""
    added = f"{len(files)} uncommitted file{several} committed for it, " if files else ""
    return f"{added}handed in as {merge.commit[:7]}; it is merged in turn"


async def refuse_added(team: Team, task: Task, why: str, *, by: str, voice: Voice) -> NoReturn:
    """Take back a task that was just added, because a hook does not want it.

    Raises:
        Refused: hook_refused.
    """
    await team.tasks.delete(task.id, by=by, voice=voice)
    raise Refused(
        f"The task was not added: {why}", reason="hook_refused", remedy="See to that first."
    )


def refuse_without_shell(spec: AgentSpec, checks: Sequence[Check]) -> None:
    """Refuse commands that an agent states as checks which has no tool to run any itself.

    Raises:
        Refused: denied.
    """
    given = ["Bash"] if spec.tools is None else [tool_of(name) for name in spec.tools]
    has_shell = "Bash" in given and "Bash" not in (spec.disallowed_tools or ())
    commands = [check for check in checks if check.run is not None]
    if commands and not has_shell:
        raise Refused(
            f"You may not have {commands[0].run!r} run as a check: you do not have the tool Bash.",
            reason="denied",
            remedy="Ask for a file, a commit or a report, or have a person state it.",
        )


async def refuse_beyond(rights: Rights, checks: Sequence[Check]) -> None:
    """Refuse checks that an agent states where nobody can be asked for permission.

    The runtime would run for it what it may not run itself.

    Raises:
        Refused: denied.
    """
    for call in [running(check.run) for check in checks if check.run]:
        ruling = await to_thread.run_sync(decide, call, rights)
        if ruling.effect != "allow":
            raise Refused(
                f"You may not have this run as a check ({call}): {ruling.why}.",
                reason="denied",
                remedy="State it with the tool TaskCreate, which asks, or have a person state it.",
            )


def running(command: str) -> Call:
    """The call that stands for a check: who may not make it may not have it made."""
    return Call("Bash", {"command": command}, "run")


def refuse_outside(checks: Sequence[Check]) -> None:
    """Refuse files that an agent asks for which are not in the project.

    Whoever may read nothing outside must not learn what is there either.

    Raises:
        Invalid: one is not.
    """
    for check in checks:
        path = check.path or ""
        if path.startswith(("/", "~")) or ".." in path.split("/"):
            raise Invalid(
                f"The file {path!r} of a check is not in the project.",
                remedy="Name one by its path from your working directory.",
            )
