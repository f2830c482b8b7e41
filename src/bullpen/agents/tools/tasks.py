"""Tools for the shared task list. Who acts is always the agent itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from pydantic import ConfigDict, Field

from bullpen.agents.completion import handed_in, refuse_outside, refuse_without_shell, running
from bullpen.agents.drivers.base import Desk
from bullpen.agents.tools.base import Tool, ToolInput
from bullpen.errors import BullpenError, Invalid, Refused
from bullpen.protocol.merge import Merge, merge_of
from bullpen.protocol.task import Check, CheckKind, Task
from bullpen.team import rules
from bullpen.team.check_rules import is_done, said_status

LEASE_S = 120.0
"""For how long a claim holds unless the runner renews it."""

_REMEDIES = {
    "already_claimed": "Take another task (TaskList shows them), or ask its owner or the lead "
    "to give it back.",
    "agent_busy": "Complete that one first (status completed), or give it back (status pending).",
    "blocked": "Take another task; this one can be claimed when those are completed.",
    "checks_missing": "Make them pass; a report is given in the field `report` of TaskUpdate.",
    "not_claimed": "Claim it first (status in_progress).",
    "task_not_found": "TaskList shows which there are.",
}


class _TaskInput(ToolInput):
    """Models also write the id of a task as a number."""

    model_config = ConfigDict(coerce_numbers_to_str=True)


class CheckInput(ToolInput):
    """One check of a task."""

    kind: CheckKind = Field(
        description="command: it must end with exit code 0; file: it must be there and not be "
        "empty; commit: it must be on a branch; report: one must be given"
    )
    run: str | None = Field(None, description="Of a command: the line, for bash")
    path: str | None = Field(None, description="Of a file: its path in the project, or a pattern")
    ref: str | None = Field(
        None, description="Of a commit: its branch or id; else the report must name its id"
    )
    name: str | None = Field(None, description="What to call it")


_CHECKS = "What proves it done. The runtime looks for it before the task can be completed"


class TaskCreateInput(_TaskInput):
    """Input of TaskCreate."""

    subject: str = Field(description="What is to be done, in a few words")
    description: str = Field(description="What exactly is to be done, and when it is done")
    active_form: str | None = Field(
        None, alias="activeForm", description="The subject as an activity: 'Running tests'"
    )
    metadata: dict[str, Any] | None = Field(None, description="Anything to keep with the task")
    add_blocked_by: list[str] = Field(
        default_factory=list,
        alias="addBlockedBy",
        description="Ids of tasks that must be completed before this one",
    )
    checks: list[CheckInput] = Field(default_factory=list, description=_CHECKS)


class TaskGetInput(_TaskInput):
    """Input of TaskGet."""

    task_id: str = Field(alias="taskId", description="The id of the task")


class TaskListInput(ToolInput):
    """Input of TaskList."""


class TaskUpdateInput(_TaskInput):
    """Input of TaskUpdate."""

    task_id: str = Field(alias="taskId", description="The id of the task")
    status: Literal["pending", "in_progress", "completed", "deleted"] | None = Field(
        None,
        description="in_progress claims it for you, completed finishes it, pending gives it back, "
        "deleted removes it",
    )
    subject: str | None = Field(None, description="A new subject")
    description: str | None = Field(None, description="A new description")
    active_form: str | None = Field(None, alias="activeForm", description="A new active form")
    metadata: dict[str, Any] | None = Field(
        None, description="Keys to add or change; a key with null is removed"
    )
    owner: str | None = Field(
        None, description="Your own name claims it; another member's name assigns it"
    )
    add_blocks: list[str] = Field(
        default_factory=list, alias="addBlocks", description="Ids of tasks that wait for this one"
    )
    add_blocked_by: list[str] = Field(
        default_factory=list, alias="addBlockedBy", description="Ids of tasks this one waits for"
    )
    report: str | None = Field(
        None, description="With status completed: what was done and what came out"
    )
    checks: list[CheckInput] | None = Field(
        None, description="Other checks in place of those it has; only the lead can change them"
    )


async def _stated(given: list[CheckInput], desk: Desk) -> list[Check]:
    """The checks that an agent states, if it may run itself what the runtime is to run for it.

    Raises:
        Refused: it may not.
        Invalid: a file outside the project is asked for.
    """
    checks = [_check(each) for each in given]
    refuse_outside(checks)
    refuse_without_shell(desk.spec, checks)
    permitted = []
    for check in checks:
        if check.run is not None:
            call = await desk.permit(running(check.run))
            check = check.evolve(run=str(call.get("command", check.run)))
        permitted.append(check)
    return permitted


def _check(given: CheckInput) -> Check:
    name = given.name or given.run or given.path or given.ref or given.kind
    match given.kind:
        case "command":
            return Check.new(name=name, kind="command", run=given.run)
        case "file":
            return Check.new(name=name, kind="file", path=given.path)
        case "commit":
            return Check.new(name=name, kind="commit", ref=given.ref)
        case "report":
            return Check.new(name=name, kind="report")


async def _create(given: TaskCreateInput, desk: Desk) -> str:
    checks = await _stated(given.checks, desk)
    task = await desk.team.tasks.add(
        given.subject,
        by=desk.agent,
        description=given.description,
        active_form=given.active_form,
        blocked_by=[_id(task_id) for task_id in given.add_blocked_by],
        metadata=given.metadata,
        checks=checks,
    )
    await desk.created(task)
    return f"Task #{task.id} created successfully: {task.subject}"


async def _get(given: TaskGetInput, desk: Desk) -> str:
    task = await desk.team.tasks.get(_id(given.task_id))
    lines = [f"Task #{task.id}: {task.subject}", f"Status: {said_status(task)}"]
    if task.owner:
        lines.append(f"Owner: {task.owner}")
    lines.append(f"Description: {task.description}")
    if task.blocked_by:
        lines.append(f"Blocked by: {_numbers(task.blocked_by)}")
    if task.blocks:
        lines.append(f"Blocks: {_numbers(task.blocks)}")
    if merge := merge_of(task):
        lines += _merge(merge)
    lines += [_found(check, task.facts.attempt) for check in task.facts.all_checks]
    if task.facts.report:
        lines.append(f"Report: {task.facts.report}")
    return "\n".join(lines)


def _merge(merge: Merge) -> list[str]:
    """How far the work is that was handed in with a task."""
    match merge.state:
        case "queued":
            return [f"Work: {merge.commit[:7]} of {merge.by} waits to be merged"]
        case "merged":
            return [f"Work: merged as {(merge.landed or merge.commit)[:7]}"]
        case "returned":
            files = f" in {', '.join(merge.files)}" if merge.files else ""
            lines = [f"Work: {merge.commit[:7]} came back: {merge.why}{files}"]
            return [*lines, merge.detail] if merge.detail else lines


def _found(check: Check, attempt: int) -> str:
    what = check.run or check.path or check.ref
    head = f"Check {check.name!r} ({check.kind}{f': {what}' if what else ''})"
    if check.passed is None or check.attempt != attempt:
        return f"{head}: not looked at yet"
    if check.passed:
        return f"{head}: passed"
    return f"{head}: failed: {check.detail}" if check.detail else f"{head}: failed"


async def _list(given: TaskListInput, desk: Desk) -> str:
    listing = await desk.team.tasks.list()
    by_id = {task.id: task for task in listing.tasks}
    lines = [_row(task, by_id) for task in listing.tasks]
    lines += [f"Cannot be read: {problem.where}: {problem.why}" for problem in listing.problems]
    return "\n".join(lines) or "No tasks found"


def _row(task: Task, by_id: dict[str, Task]) -> str:
    owner = f" ({task.owner})" if task.owner else ""
    waits = [] if is_done(task) else rules.open_blockers(task, by_id.get)
    blocked = f" [blocked by {_numbers(waits)}]" if waits else ""
    return f"#{task.id} [{said_status(task)}] {task.subject}{owner}{blocked}"


def _numbers(ids: list[str]) -> str:
    return ", ".join(f"#{task_id}" for task_id in ids)


def _id(given: str) -> str:
    """Models also write `#3`."""
    return given.strip().removeprefix("#")


async def _update(given: TaskUpdateInput, desk: Desk) -> str:
    """Apply every field that is given, each in a commit of its own, the status last."""
    steps = _steps(given, desk)
    if not steps:
        raise Invalid(
            f"Nothing to change was given for task {given.task_id!r}.",
            remedy="Give a status, an owner, words or dependencies.",
        )
    done: list[str] = []
    for step in steps:
        try:
            done.append(await step())
        except BullpenError as error:
            raise _with_what_was_done(error, done) from error
    return f"Updated task #{_id(given.task_id)}: {'; '.join(done)}"


Step = Callable[[], Awaitable[str]]


def _steps(given: TaskUpdateInput, desk: Desk) -> list[Step]:
    """What to do, in the order in which the parts of one call make sense together.

    Words and dependencies come first, so that a claim in the same call sees them. With a status
    that ends or frees the task, an owner of the same call comes after it is free or not at all.
    """
    update = _Update(_id(given.task_id), given, desk)
    steps: list[Step] = []
    if any(text is not None for text in (given.subject, given.description, given.active_form)):
        steps.append(update.words)
    if given.checks is not None:
        steps.append(update.checks)
    if given.add_blocked_by or given.add_blocks:
        steps.append(update.edges)
    mine = given.owner in (desk.agent, f"{desk.agent}@{desk.team.name}")
    other = given.owner is not None and not mine
    if given.status == "in_progress" and other:
        steps.append(update.not_for_others)
    elif given.status == "in_progress" or (mine and given.status is None):
        steps.append(update.claim)
    elif given.status == "completed":
        steps.append(update.complete)
    elif given.status == "deleted":
        steps.append(update.delete)
    elif given.status == "pending":
        steps.append(update.give_back)
    if given.owner is not None and (given.status == "pending" or (other and given.status is None)):
        steps.append(update.assign)
    return steps


class _Update:
    """The steps of one TaskUpdate."""

    def __init__(self, task_id: str, given: TaskUpdateInput, desk: Desk) -> None:
        self._id, self._given, self._desk = task_id, given, desk
        self._tasks, self._by = desk.team.tasks, desk.agent

    async def words(self) -> str:
        given = self._given
        await self._tasks.edit(
            self._id,
            by=self._by,
            subject=given.subject,
            description=given.description,
            active_form=given.active_form,
            metadata=given.metadata,
        )
        stated = {
            "subject": given.subject,
            "description": given.description,
            "activeForm": given.active_form,
            "metadata": given.metadata,
        }
        return f"changed {', '.join(name for name, text in stated.items() if text is not None)}"

    async def checks(self) -> str:
        checks = await _stated(self._given.checks or [], self._desk)
        await self._tasks.restate(self._id, checks, by=self._by)
        return f"it has {len(checks)} checks now" if len(checks) != 1 else "it has one check now"

    async def edges(self) -> str:
        said = []
        before = [_id(task_id) for task_id in self._given.add_blocked_by]
        if before:
            await self._tasks.depend(self._id, before, by=self._by)
            said.append(f"it waits for {_numbers(before)}")
        for task_id in map(_id, self._given.add_blocks):
            try:
                await self._tasks.depend(task_id, self._id, by=self._by)
            except BullpenError as error:
                raise _with_what_was_done(error, said) from error
            said.append(f"#{task_id} waits for it")
        return ", ".join(said)

    async def not_for_others(self) -> str:
        raise Invalid(
            f"Only {self._given.owner!r} can put a task of its own in progress.",
            remedy="Assign it: give the owner without a status. The owner is told.",
        )

    async def claim(self) -> str:
        held = await self._held()
        if held is not None:
            return f"it is in progress and yours already (attempt {held})"
        task = await self._tasks.claim(self._id, by=self._by, lease_s=LEASE_S)
        self._desk.attempts[self._id] = task.facts.attempt
        ready = await self._desk.begin_task(task)
        told = f"claimed by you, in progress (attempt {task.facts.attempt})"
        return told if ready is None else f"{told}. {ready}"

    async def _held(self) -> int | None:
        """The attempt under which this agent works on the task now, if it does."""
        attempt = self._desk.attempts.get(self._id)
        if attempt is None:
            return None
        task = await self._tasks.get(self._id)
        owned = task.status == "in_progress" and task.owner in (
            self._by,
            f"{self._by}@{self._desk.team.name}",
        )
        return attempt if owned and task.facts.attempt == attempt else None

    async def complete(self) -> str:
        done = await self._desk.complete(self._id, report=self._given.report)
        self._desk.attempts.pop(self._id, None)
        unblocked = f", which unblocked {_numbers([*done.unblocked])}" if done.unblocked else ""
        work = handed_in(done)
        handed = "" if work is None else f", {work}"
        return f"completed{unblocked}{handed}. TaskList shows what is left"

    async def delete(self) -> str:
        await self._tasks.delete(self._id, by=self._by)
        self._desk.attempts.pop(self._id, None)
        return "deleted"

    async def give_back(self) -> str:
        task = await self._tasks.get(self._id)
        if task.status == "pending" and (self._given.owner is not None or not task.owner):
            return "it is pending already"
        await self._tasks.release(self._id, by=self._by)
        self._desk.attempts.pop(self._id, None)
        return "given back, pending"

    async def assign(self) -> str:
        to = (self._given.owner or "").removesuffix(f"@{self._desk.team.name}")
        await self._tasks.assign(self._id, to, by=self._by)
        return f"assigned to {to}" if to == self._by else f"assigned to {to}, who is told"


def _with_what_was_done(error: BullpenError, done: list[str]) -> BullpenError:
    """The same error, in the words of these tools, with what came before it."""
    before = f" Before that, this was done: {'; '.join(done)}." if done else ""
    if isinstance(error, Refused) and not isinstance(error, Invalid):
        remedy = _REMEDIES.get(error.reason, error.remedy)
        return Refused(f"{error.message}{before}", reason=error.reason, remedy=remedy)
    return BullpenError(f"{error.message}{before}", remedy=error.remedy) if before else error


TASK_TOOLS: tuple[Tool, ...] = (
    Tool(
        "TaskCreate",
        "Add a task to the team's shared task list. It is pending and nobody's until somebody "
        "claims it or it is assigned. State checks where something can prove it done.",
        TaskCreateInput,
        "team",
        _create,
    ),
    Tool(
        "TaskGet",
        "Show one task of the shared list whole: description, owner, dependencies, checks.",
        TaskGetInput,
        "team",
        _get,
    ),
    Tool(
        "TaskList",
        "List all tasks of the team, in id order: status, owner, and what they wait for.",
        TaskListInput,
        "team",
        _list,
    ),
    Tool(
        "TaskUpdate",
        "Change a task: claim it (status in_progress), complete it, give it back (pending), "
        "delete it, assign it to another member, change its words, or make tasks wait for each "
        "other. Claim a task before you work on it; complete it only when it is really done: its "
        "checks are run then, and it stays open if one fails.",
        TaskUpdateInput,
        "team",
        _update,
    ),
)
