"""`bullpen task`: the shared task list, but for what tasks say and what proves them done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bullpen.by_name import load
from bullpen.doors.actions.ready_tree import got_ready
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options import completion
from bullpen.doors.cli.options.option import argument, flag, option
from bullpen.doors.cli.output.records_view import RecordViews
from bullpen.doors.cli.session import Session, text_or_input
from bullpen.errors import NotFound
from bullpen.protocol.task import Task
from bullpen.team.tasks.operations import Listing
from bullpen.team.team import Team

if TYPE_CHECKING:
    from bullpen.team.tasks.meant_for import MeantFor

TaskId = Annotated[str, argument("The task", "ID", complete=completion.task_ids)]
OtherIds = Annotated[
    list[str], argument("The other tasks [repeatable]", "ON", complete=completion.task_ids)
]


@examples("bullpen task list --ready", "bullpen task list --status pending --owner alice")
def list_tasks(
    session: Session,
    *,
    ready: Annotated[bool, flag("Show only tasks that can be claimed now", "--ready")] = False,
    status: Annotated[
        Literal["pending", "in_progress", "completed"] | None,
        option("Show only pending, in_progress or completed tasks", "STATUS"),
    ] = None,
    owner: Annotated[
        str | None,
        option("Show only tasks of this member", "NAME", complete=completion.member_names),
    ] = None,
) -> None:
    """List tasks and what each waits for."""

    async def look(team: Team) -> tuple[Listing, list[Task]]:
        listing = await team.tasks.list()
        return listing, await team.tasks.ready() if ready else listing.tasks

    listing, tasks = session.with_team(look)
    shown = [
        task
        for task in tasks
        if status in (None, task.status) and owner in (None, (task.owner or "").partition("@")[0])
    ]
    RecordViews(session.page).tasks(listing, shown)


@examples("bullpen task show 3")
def show(session: Session, task_id: TaskId) -> None:
    """Show one task."""

    async def look(team: Team) -> tuple[Task, MeantFor | None]:
        task = await team.tasks.get(task_id)
        if session.page.json or task.status != "pending" or task.owner:
            return task, None
        tasks = {each.id: each for each in (await team.tasks.list()).tasks}
        kept_for = load("bullpen.team.tasks.dispatch_rules:kept_for")
        return task, kept_for(tasks, await team.agents.config()).get(task.id)

    RecordViews(session.page).task(*session.with_team(look))


@examples("bullpen task claim --as alice", "bullpen task claim 3 --as alice")
def claim(
    session: Session,
    task_id: Annotated[
        str | None,
        argument("The task [default: the next ready task]", "ID", complete=completion.task_ids),
    ] = None,
    *,
    also: Annotated[bool, flag("Even if you have another task in progress", "--also")] = False,
) -> None:
    """Claim a task and start on it.

    If several members claim a task, exactly one gets it.
    """

    async def taken(team: Team) -> tuple[str, Task, str | None]:
        tasks = team.tasks
        by, voice = await session.identity.speaks(team)
        if task_id is None:
            task = await tasks.claim_next(by=by, also=also)
        else:
            task = await tasks.claim(task_id, by=by, also=also)
        if task is None:
            raise NotFound(
                "No task is ready to be claimed.",
                remedy="See what tasks wait for: bullpen task list",
            )
        return by, task, None if voice == "human" else await got_ready(team, by, task)

    by, task, ready = session.with_team(taken)
    said = f"{by} has task {task.id}: {task.subject}"
    session.page.result("task/1", task.raw, said, *([] if ready is None else [ready]))


@examples("bullpen task release 3 --reason 'Needs a decision first'")
def release(
    session: Session,
    task_id: TaskId,
    *,
    reason: Annotated[str | None, option("Why", "TEXT")] = None,
) -> None:
    """Release a task so that others can claim it."""
    task = session.as_actor(lambda team, by: team.tasks.release(task_id, by=by, reason=reason))
    session.page.result("task/1", task.raw, f"Task {task.id} is pending again: {task.subject}")


@examples("bullpen task assign 3 alice")
def assign(
    session: Session,
    task_id: TaskId,
    name: Annotated[str, argument("The new owner", "NAME", complete=completion.member_names)],
) -> None:
    """Assign a task to a member.

    The member gets a message.
    """
    task = session.as_actor(lambda team, by: team.tasks.assign(task_id, name, by=by))
    session.page.result("task/1", task.raw, f"Assigned task {task.id} to {name}: {task.subject}")


@examples("bullpen task depend 3 1 2  # 3 waits for 1 and 2")
def depend(session: Session, task_id: TaskId, on: OtherIds) -> None:
    """Make a task depend on others.

    A cycle is refused.
    """
    task = session.as_actor(lambda team, by: team.tasks.depend(task_id, on, by=by))
    session.page.result(
        "task/1", task.raw, f"Task {task.id} waits for {', '.join(task.blocked_by)}."
    )


@examples("bullpen task undepend 3 1")
def undepend(session: Session, task_id: TaskId, on: OtherIds) -> None:
    """Remove dependencies of a task."""
    task = session.as_actor(lambda team, by: team.tasks.undepend(task_id, on, by=by))
    waits_for = ", ".join(task.blocked_by) or "nothing"
    session.page.result("task/1", task.raw, f"Task {task.id} waits for {waits_for}.")


@examples("bullpen task give-up 3 'It needs a decision by the customer'")
def give_up(
    session: Session,
    task_id: TaskId,
    reason: Annotated[str, argument("Why; stored with the task", "REASON")],
) -> None:
    """Abandon a task until it is retried."""
    why = " ".join(text_or_input(reason).split())
    if not why:
        raise typer.BadParameter("the reason is empty.")
    task = session.as_actor(lambda team, by: team.tasks.give_up(task_id, by=by, reason=why))
    session.page.result("task/1", task.raw, f"Gave up task {task.id}: {task.subject}")


@examples("bullpen task retry 3")
def retry(session: Session, task_id: TaskId) -> None:
    """Retry a task that was given up."""

    async def retried(team: Team, by: str) -> tuple[Task, list[Task]]:
        before = {each.id for each in (await team.tasks.list()).tasks if each.facts.given_up}
        task = await team.tasks.retry(task_id, by=by)
        now = (await team.tasks.list()).tasks
        again = (each for each in now if each.id in before and not each.facts.given_up)
        return task, [each for each in again if each.id != task.id]

    task, waiting = session.as_actor(retried)
    session.page.result(
        "task/1",
        task.raw,
        f"Task {task.id} can be taken again: {task.subject}",
        *(f"Task {each.id} waits again: {each.subject}" for each in waiting),
    )


@examples("bullpen task delete 3")
def delete(session: Session, task_id: TaskId) -> None:
    """Delete a task and every reference to it.

    Its id is not used again.
    """

    async def deleted(team: Team) -> Task:
        by, voice = await session.identity.speaks(team)
        return await team.tasks.delete(task_id, by=by, voice=voice)

    task = session.with_team(deleted)
    session.page.result("task/1", task.raw, f"Deleted task {task.id}: {task.subject}")


@examples("bullpen task graph", "bullpen task graph --mermaid > tasks.mmd")
def graph(
    session: Session,
    *,
    mermaid: Annotated[bool, flag("Print a Mermaid flowchart", "--mermaid")] = False,
) -> None:
    """Show which tasks depend on which."""
    listing = session.with_team(lambda team: team.tasks.list())
    RecordViews(session.page).graph(listing, mermaid=mermaid)
