"""The tool with which members promise each other something, and rely on promises."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from bullpen.agents.contracts.desk import TeamDesk
from bullpen.agents.contracts.tool import ToolInput
from bullpen.agents.tools.documented_tool import documented
from bullpen.agents.tools.outside_text.harmless import one_line
from bullpen.agents.work.complete import refuse_without_shell, running
from bullpen.errors import Invalid
from bullpen.protocol.record.promise import Promise, PromiseKind
from bullpen.protocol.task import Check, Task
from bullpen.team.lookup import owner_of
from bullpen.team.promises.rules import PromiseDraft, Standing

_LINE_MAX = 300


class PromiseInput(ToolInput):
    """Input of Promise."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    action: Literal["make", "change", "withdraw", "rely", "drop", "list"] = Field(
        description="withdraw your own; rely on another's, or drop it"
    )
    promise: str | None = Field(None, description="Its id, such as 3.1")
    task_id: str | None = Field(None, alias="taskId", description="Default: the task you work on")
    text: str | None = Field(None, description="What you promise, or why you withdraw")
    path: str | None = Field(None, description="File of the signature, or paths only you edit")
    signature: str | None = Field(None, description="Such as parse(text, *, strict=False)")
    command: str | None = Field(None, description="It succeeds with your work")


async def _promise(given: PromiseInput, desk: TeamDesk) -> str:
    """Promise what others build on, or rely on it. Give one proof: a signature and its file, a
    path, or a command. It is checked at hand-in and merge. Those who rely on it hear of changes.
    """
    promises, by = desk.team.promises, desk.agent
    if given.action == "list":
        return "\n".join(_line(each) for each in await promises.all()) or "No promises"
    if given.action == "make":
        draft = await _draft(given, desk)
        made = await promises.make(await _task(given, desk), draft, by=by)
        return f"{_said(made)}. Others rely on it as {made.id}"
    if given.promise is None:
        raise Invalid(
            f"The action {given.action!r} needs the id of a promise.",
            remedy="Give the field promise. The action list shows all ids.",
        )
    if given.action == "change":
        changed = await promises.change(given.promise, await _draft(given, desk), by=by)
        return f"{_said(changed)}. Those who rely on it are told"
    if given.action == "withdraw":
        await promises.withdraw(given.promise, by=by, reason=given.text or "")
        return f"Promise {given.promise} is withdrawn. Those who rely on it are told"
    task_id = await _task(given, desk)
    if given.action == "rely":
        await promises.rely(given.promise, task_id, by=by)
        return f"Task #{task_id} relies on promise {given.promise}. You are told when it changes"
    await promises.drop(given.promise, task_id, by=by)
    return f"Task #{task_id} no longer relies on promise {given.promise}"


async def _draft(given: PromiseInput, desk: TeamDesk) -> PromiseDraft:
    """The promise, if the agent may run its command itself. Raises Refused."""
    kind: PromiseKind = "signature" if given.signature else "command" if given.command else "path"
    command = given.command
    if command is not None:
        refuse_without_shell(desk.spec, [Check.new(name="promise", kind="command", run=command)])
        call = await desk.permit(running(command))
        command = str(call.get("command", command))
    return PromiseDraft(given.text or "", kind, given.path, given.signature, command)


async def _task(given: PromiseInput, desk: TeamDesk) -> str:
    if given.task_id is not None:
        return given.task_id.strip().removeprefix("#")
    tasks = (await desk.team.tasks.list()).tasks
    working = [task.id for task in tasks if _works_on(task, desk)]
    if len(working) != 1:
        raise Invalid(
            f"The field taskId is missing: you work on {len(working)} tasks.",
            remedy="Claim a task first, or give its id in taskId.",
        )
    return working[0]


def _works_on(task: Task, desk: TeamDesk) -> bool:
    return task.status == "in_progress" and owner_of(task, desk.team.name) == desk.agent


def _said(promise: Promise) -> str:
    return f"Promise {promise.id} stands: {promise.text}"


def _line(standing: Standing) -> str:
    relied = ", ".join(f"#{task.id}" for task in standing.relied_by)
    return one_line(standing.named, _LINE_MAX) + (f", relied on by {relied}" if relied else "")


PROMISE = documented("Promise", PromiseInput, "team", _promise)
