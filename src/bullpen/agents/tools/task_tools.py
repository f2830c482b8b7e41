"""Tools for the shared task list. Each change is made by the agent that calls them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from bullpen.agents.contracts.desk import TeamDesk
from bullpen.agents.contracts.tool import Tool, ToolInput
from bullpen.agents.tools.documented_tool import documented
from bullpen.agents.work.complete import handed_in, refuse_outside, refuse_without_shell, running
from bullpen.agents.work.until_stored import STORE_S, until_stored
from bullpen.errors import BullpenError, Invalid, Refused
from bullpen.protocol.task import Check, Merge, Task
from bullpen.team.promises.concerns import promise_words
from bullpen.team.tasks import rules
from bullpen.team.tasks.check_rules import is_done, said_status
from bullpen.team.tasks.drafts import Draft

LEASE_S = 120.0
"""How long a claim is valid unless the runner renews it."""


class _TaskInput(ToolInput):
    """Accepts task ids as numbers, as some models write them."""

    model_config = ConfigDict(coerce_numbers_to_str=True)


class CheckInput(ToolInput):
    """One check of a task."""

    # People and team files ask for reviews: they start agents, which costs money.
    kind: Literal["command", "file", "report", "commit"] = Field(
        description="command: must exit with 0; file: must not be empty; commit: must be on a "
        "branch; report: must be given"
    )
    run: str | None = Field(None, description="The command, for bash")
    path: str | None = Field(None, description="The file's path, or a pattern")
    ref: str | None = Field(None, description="The branch or id; default: the report names the id")
    name: str | None = Field(None, description="Its name")


_ABOUT = {"command": {"run"}, "file": {"path"}, "commit": {"ref"}, "report": set[str]()}
"""The field that says what a check of each kind looks at."""

_TEXTS = {"subject", "description", "active_form", "metadata"}
_CHECKS = "What proves that it is done; run when it is completed"


class TaskCreateInput(_TaskInput):
    """Input of TaskCreate."""

    subject: str = Field(description="What to do, in a few words")
    description: str = Field(description="What exactly to do, and when it is done")
    active_form: str | None = Field(None, alias="activeForm", description="Such as 'Running tests'")
    metadata: dict[str, Any] | None = Field(None, description="Other data")
    add_blocked_by: list[str] = Field(
        default_factory=list,
        alias="addBlockedBy",
        description="Ids of tasks to be done first",
    )
    checks: list[CheckInput] = Field(default_factory=list, description=_CHECKS)


class TaskGetInput(_TaskInput):
    """Input of TaskGet."""

    task_id: str = Field(alias="taskId", description="Its id")


class TaskListInput(ToolInput):
    """Input of TaskList."""


class TaskUpdateInput(_TaskInput):
    """Input of TaskUpdate."""

    sent_as: ClassVar[Mapping[str, Mapping[str, Any] | None]] = {
        "checks": {
            "type": "array",
            "items": {"type": "object"},
            "description": "New checks, as for TaskCreate; only the lead may change them",
        }
    }

    task_id: str = Field(alias="taskId", description="Its id")
    status: Literal["pending", "in_progress", "completed", "deleted"] | None = Field(
        None,
        description="in_progress claims it, pending gives it back",
    )
    subject: str | None = Field(None, description="New subject")
    description: str | None = Field(None, description="New description")
    active_form: str | None = Field(None, alias="activeForm", description="New active form")
    metadata: dict[str, Any] | None = Field(None, description="Keys to change; null removes one")
    owner: str | None = Field(
        None, description="Your own name claims it; another assigns it to that member"
    )
    add_blocks: list[str] = Field(
        default_factory=list, alias="addBlocks", description="Ids of tasks that depend on it"
    )
    add_blocked_by: list[str] = Field(
        default_factory=list, alias="addBlockedBy", description="Ids of tasks it depends on"
    )
    report: str | None = Field(None, description="With completed: what you did, and the result")
    checks: list[CheckInput] | None = Field(
        None, description="Checks that replace the present ones; only the lead may change them"
    )


async def _stated(given: list[CheckInput], desk: TeamDesk) -> list[Check]:
    """The checks that an agent states, if it may run their commands itself. Raises Refused."""
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
    about = given.model_dump(include=_ABOUT[given.kind])
    return Check.new(name=name, kind=given.kind, **about)


async def _create(given: TaskCreateInput, desk: TeamDesk) -> str:
    """Add a task to the team's list. It has no owner until someone claims it or it is assigned."""
    checks = await _stated(given.checks, desk)
    draft = Draft(
        given.subject,
        description=given.description,
        active_form=given.active_form,
        blocked_by=[_id(task_id) for task_id in given.add_blocked_by],
        metadata=given.metadata,
        checks=checks,
    )
    task = await desk.add_task(draft)
    return f"Task #{task.id} created successfully: {task.subject}"


async def _get(given: TaskGetInput, desk: TeamDesk) -> str:
    """Show a task in full: description, owner, dependencies, checks."""
    task = await desk.team.tasks.get(_id(given.task_id))
    lines = [f"Task #{task.id}: {task.subject}", f"Status: {said_status(task)}"]
    if task.owner:
        lines.append(f"Owner: {task.owner}")
    lines.append(f"Description: {task.description}")
    if task.blocked_by:
        lines.append(f"Blocked by: {_numbers(task.blocked_by)}")
    if task.blocks:
        lines.append(f"Blocks: {_numbers(task.blocks)}")
    if merge := task.facts.merge:
        lines += _merge(merge)
    lines += [_found(check, task.facts.attempt) for check in task.facts.checks]
    lines += promise_words(task)
    if task.facts.report:
        lines.append(f"Report: {task.facts.report}")
    return "\n".join(lines)


def _merge(merge: Merge) -> list[str]:
    """Where the work that was handed in with a task is on its way to the target."""
    match merge.state:
        case "queued":
            return [f"Work: {merge.commit[:7]} of {merge.by} waits in the merge queue"]
        case "merged":
            return [f"Work: merged as {(merge.landed or merge.commit)[:7]}"]
        case "returned":
            files = f" in {', '.join(merge.files)}" if merge.files else ""
            lines = [f"Work: {merge.commit[:7]} was returned: {merge.why}{files}"]
            return [*lines, merge.detail] if merge.detail else lines


def _found(check: Check, attempt: int) -> str:
    what = check.by if check.kind == "review" else check.run or check.path or check.ref
    head = f"Check {check.name!r} ({check.kind}{f': {what}' if what else ''})"
    if check.passed is None or check.attempt != attempt:
        return f"{head}: not run yet"
    if check.passed:
        return f"{head}: passed"
    return f"{head}: failed: {check.detail}" if check.detail else f"{head}: failed"


async def _list(given: TaskListInput, desk: TeamDesk) -> str:
    """List all tasks: status, owner, open dependencies."""
    listing = await desk.team.tasks.list()
    by_id = {task.id: task for task in listing.tasks}
    lines = [_row(task, by_id) for task in listing.tasks]
    lines += [f"Cannot read {problem.where}: {problem.why}" for problem in listing.problems]
    return "\n".join(lines) or "No tasks found"


def _row(task: Task, by_id: dict[str, Task]) -> str:
    owner = f" ({task.owner})" if task.owner else ""
    waits = [] if is_done(task) else rules.open_blockers(task, by_id.get)
    blocked = f" [blocked by {_numbers(waits)}]" if waits else ""
    return f"#{task.id} [{said_status(task)}] {task.subject}{owner}{blocked}"


def _numbers(ids: list[str]) -> str:
    return ", ".join(f"#{task_id}" for task_id in ids)


def _id(given: str) -> str:
    """A task id without the `#` that models often add."""
    return given.strip().removeprefix("#")


async def _update(given: TaskUpdateInput, desk: TeamDesk) -> str:
    """Change a task. Claim it before you work on it. Complete it only when it is really done: its
    checks run then, and it stays open if one fails.
    """
    steps = _steps(given, desk)
    if not steps:
        raise Invalid(
            f"The update of task {given.task_id!r} changes nothing.",
            remedy="Give `status`, `owner`, `description`, `checks` or `addBlockedBy`.",
        )
    done: list[str] = []
    # Each step is its own commit, the status last.
    for step in steps:
        try:
            done.append(await step())
        except BullpenError as error:
            raise _with_what_was_done(error, done) from error
    return f"Updated task #{_id(given.task_id)}: {'; '.join(done)}"


Step = Callable[[], Awaitable[str]]


def _steps(given: TaskUpdateInput, desk: TeamDesk) -> list[Step]:
    """The changes of one call, in the order in which they make sense together.

    Texts and dependencies come first, so that a claim in the same call sees them. If the status
    completes or deletes the task, an owner in the same call is ignored; if it gives the task back,
    the owner is set after that.
    """
    update = _Update(_id(given.task_id), given, desk)
    steps: list[Step] = []
    if any(text is not None for text in (given.subject, given.description, given.active_form)):
        steps.append(update.words)
    if given.checks is not None:
        steps.append(update.checks)
    if given.add_blocked_by or given.add_blocks:
        steps.append(update.edges)
    mine = given.owner in _names_of(desk)
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


def _names_of(desk: TeamDesk) -> tuple[str, str]:
    return desk.agent, f"{desk.agent}@{desk.team.name}"


class _Update:
    """The steps of one TaskUpdate."""

    def __init__(self, task_id: str, given: TaskUpdateInput, desk: TeamDesk) -> None:
        self._id, self._given, self._desk = task_id, given, desk
        self._tasks, self._by = desk.team.tasks, desk.agent

    async def words(self) -> str:
        texts = self._given.model_dump(include=_TEXTS)
        await self._tasks.edit(self._id, by=self._by, **texts)
        stated = self._given.model_dump(include=_TEXTS, by_alias=True, exclude_none=True)
        return f"changed {', '.join(stated)}"

    async def checks(self) -> str:
        checks = await _stated(self._given.checks or [], self._desk)
        await self._tasks.restate(self._id, checks, by=self._by)
        return f"it now has {len(checks)} checks" if len(checks) != 1 else "it now has 1 check"

    async def edges(self) -> str:
        said = []
        before = [_id(task_id) for task_id in self._given.add_blocked_by]
        if before:
            await self._tasks.depend(self._id, before, by=self._by)
            said.append(f"it depends on {_numbers(before)}")
        for task_id in map(_id, self._given.add_blocks):
            try:
                await self._tasks.depend(task_id, self._id, by=self._by)
            except BullpenError as error:
                raise _with_what_was_done(error, said) from error
            said.append(f"#{task_id} depends on it")
        return ", ".join(said)

    async def not_for_others(self) -> str:
        raise Invalid(
            f"Only {self._given.owner!r} can claim a task for {self._given.owner!r}.",
            remedy="To assign it, give the owner without a status. The owner gets a message.",
        )

    async def claim(self) -> str:
        held = await self._held()
        if held is not None:
            return f"it is already yours and in progress (attempt {held})"
        task = await until_stored(
            lambda: self._tasks.claim(self._id, by=self._by, lease_s=LEASE_S),
            tell=lambda _: None,
            within_s=STORE_S,
            was_done=self._claimed,
        )
        ready = await self._desk.begin_task(task)
        told = f"claimed by you, in progress (attempt {task.facts.attempt})"
        return told if ready is None else f"{told}. {ready}"

    async def _claimed(self) -> Task | None:
        """The task if this agent has it in progress, although the store said otherwise."""
        task = await self._tasks.get(self._id)
        owned = task.status == "in_progress" and task.owner in _names_of(self._desk)
        return task if owned else None

    async def _held(self) -> int | None:
        """The attempt with which this agent holds the task, if it does."""
        attempt = self._desk.attempts.get(self._id)
        if attempt is None:
            return None
        task = await self._claimed()
        return attempt if task is not None and task.facts.attempt == attempt else None

    async def complete(self) -> str:
        done = await self._desk.complete(self._id, report=self._given.report)
        self._desk.attempts.pop(self._id, None)
        unblocked = f", which unblocked {_numbers([*done.unblocked])}" if done.unblocked else ""
        work = handed_in(done)
        handed = "" if work is None else f", {work}"
        return f"completed{unblocked}{handed}. Use TaskList to see what is left"

    async def delete(self) -> str:
        await self._tasks.delete(self._id, by=self._by)
        self._desk.attempts.pop(self._id, None)
        return "deleted"

    async def give_back(self) -> str:
        task = await self._tasks.get(self._id)
        if task.status == "pending" and (self._given.owner is not None or not task.owner):
            return "it is already pending"
        await self._tasks.release(self._id, by=self._by)
        self._desk.attempts.pop(self._id, None)
        return "given back, now pending"

    async def assign(self) -> str:
        to = (self._given.owner or "").removesuffix(f"@{self._desk.team.name}")
        await self._tasks.assign(self._id, to, by=self._by)
        return f"assigned to {to}" if to == self._by else f"assigned to {to}, who gets a message"


def _with_what_was_done(error: BullpenError, done: list[str]) -> BullpenError:
    """The same error, with what was changed before it."""
    if not done:
        return error
    said = f"{error.message} Done before the error: {'; '.join(done)}."
    if isinstance(error, Refused) and not isinstance(error, Invalid):
        return Refused(said, reason=error.reason, remedy=error.remedy)
    return BullpenError(said, remedy=error.remedy)


TASK_TOOLS: tuple[Tool[TeamDesk], ...] = (
    documented("TaskCreate", TaskCreateInput, "team", _create),
    documented("TaskGet", TaskGetInput, "team", _get),
    documented("TaskList", TaskListInput, "team", _list),
    documented("TaskUpdate", TaskUpdateInput, "team", _update),
)
