"""`bullpen task`: the shared task list."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from bullpen.doors.actions.task_by_hand import got_ready
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options import completion
from bullpen.doors.cli.options.checks import CheckOptions
from bullpen.doors.cli.options.option import argument, flag, option
from bullpen.doors.cli.output.records_view import RecordViews
from bullpen.doors.cli.session import Session, directory, text_or_input
from bullpen.doors.cli.tasks.task_commands import task_commands
from bullpen.errors import NotFound, Refused
from bullpen.protocol.task import Task
from bullpen.team.tasks.dispatch_rules import kept_for
from bullpen.team.tasks.meant_for import MeantFor
from bullpen.team.tasks.operations import Listing
from bullpen.team.tasks.rules import Done
from bullpen.team.team import Team

TaskId = Annotated[str, argument("The task", "ID", complete=completion.task_ids)]
OtherIds = Annotated[
    list[str], argument("The other tasks [repeatable]", "ON", complete=completion.task_ids)
]
Description = Annotated[str | None, option("What to do; - reads standard input", "TEXT")]
ActiveForm = Annotated[str | None, option("The subject as shown while in progress", "TEXT")]
Report = Annotated[str | None, option("What was done; - reads standard input", "TEXT")]
CheckedIn = Annotated[
    str | None,
    option("Where to run its checks [default: where its owner works, or here]", "DIR", "--cwd"),
]

_FAILED = 1


@examples(
    "bullpen task add 'Write the parser'",
    "bullpen task add 'Test the parser' --blocked-by 1 --owner alice",
    "bullpen task add 'Release' --check 'tests=make test' --check-file NEWS.md",
    "bullpen task add 'Mend the lexer' --check-commit fix/lexer --needs-report",
)
def add(
    session: Session,
    subject: Annotated[str, argument("The task in a few words", "SUBJECT")],
    *,
    description: Description = None,
    active_form: ActiveForm = None,
    blocked_by: Annotated[
        list[str] | None,
        option("Task it depends on [repeatable]", "ID", complete=completion.task_ids),
    ] = None,
    owner: Annotated[
        str | None, option("Owner of the task", "NAME", complete=completion.member_names)
    ] = None,
    proof: CheckOptions,
    budget_turns: Annotated[int | None, option("The most turns", "N", min=1)] = None,
    budget_tokens: Annotated[int | None, option("The most tokens", "N", min=1)] = None,
    budget_usd: Annotated[float | None, option("The most US dollars", "X", min=0.0001)] = None,
) -> None:
    """Add a task."""
    checks = proof.checks()
    text = text_or_input(description or "")

    async def added(team: Team) -> Task:
        door = await task_commands(session, team)
        return await door.add(
            subject,
            description=text,
            active_form=active_form,
            blocked_by=blocked_by or (),
            owner=owner,
            checks=checks,
            budget={"turns": budget_turns, "tokens": budget_tokens, "usd": budget_usd},
        )

    task = session.with_team(added)
    session.page.result(task.raw, f"Added task {task.id}: {task.subject}")


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
    session.page.result(task.raw, said, *([] if ready is None else [ready]))


@examples(
    "bullpen task done 3 --as alice",
    "bullpen task done 3 --report 'All tests pass'",
    "bullpen task done 3 --force 'The build machine is gone'",
)
def done(
    session: Session,
    task_id: TaskId,
    *,
    report: Report = None,
    attempt: Annotated[
        int | None, option("Refuse if the task is at another attempt", "N", min=0)
    ] = None,
    cwd: CheckedIn = None,
    force: Annotated[
        str | None, option("Complete it without its checks, with a reason (people only)", "REASON")
    ] = None,
) -> None:
    """Run a task's checks and complete it.

    Completes it only if the checks pass, and shows which tasks are ready now.
    """
    text = None if report is None else text_or_input(report)

    async def completed(team: Team) -> Done:
        door = await task_commands(session, team)
        if force is not None:
            return await team.tasks.force(
                task_id, by=door.by, voice=door.voice, reason=force, report=text
            )
        proving = await door.proving(
            task_id, cwd=directory(cwd) if cwd else None, tell=RecordViews(session.page).checked
        )
        try:
            return await proving.complete(task_id, attempt=attempt, report=text)
        except Refused as error:
            if session.json or error.reason != "checks_failed":
                raise
            # The result of each check was already shown.
            first = error.message.partition("\n")[0]
            raise Refused(first, reason=error.reason, remedy=error.remedy) from None

    outcome = session.with_team(completed)
    unblocked = outcome.unblocked
    session.page.result(
        {"task": outcome.task.raw, "unblocked": list(unblocked)},
        f"Completed task {outcome.task.id}: {outcome.task.subject}",
        *([f"Ready now: task {', '.join(unblocked)}."] if unblocked else []),
    )


@examples("bullpen task release 3 --reason 'Needs a decision first'")
def release(
    session: Session,
    task_id: TaskId,
    *,
    reason: Annotated[str | None, option("Why", "TEXT")] = None,
) -> None:
    """Release a task so that others can claim it."""
    task = session.as_actor(lambda team, by: team.tasks.release(task_id, by=by, reason=reason))
    session.page.result(task.raw, f"Task {task.id} is pending again: {task.subject}")


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
    session.page.result(task.raw, f"Assigned task {task.id} to {name}: {task.subject}")


@examples("bullpen task depend 3 1 2  # 3 waits for 1 and 2")
def depend(session: Session, task_id: TaskId, on: OtherIds) -> None:
    """Make a task depend on others.

    A cycle is refused.
    """
    task = session.as_actor(lambda team, by: team.tasks.depend(task_id, on, by=by))
    session.page.result(task.raw, f"Task {task.id} waits for {', '.join(task.blocked_by)}.")


@examples("bullpen task undepend 3 1")
def undepend(session: Session, task_id: TaskId, on: OtherIds) -> None:
    """Remove dependencies of a task."""
    task = session.as_actor(lambda team, by: team.tasks.undepend(task_id, on, by=by))
    waits_for = ", ".join(task.blocked_by) or "nothing"
    session.page.result(task.raw, f"Task {task.id} waits for {waits_for}.")


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
    session.page.result(task.raw, f"Gave up task {task.id}: {task.subject}")


@examples("bullpen task retry 3")
def retry(session: Session, task_id: TaskId) -> None:
    """Retry a task that was given up."""
    task = session.as_actor(lambda team, by: team.tasks.retry(task_id, by=by))
    session.page.result(task.raw, f"Task {task.id} can be taken again: {task.subject}")


@examples("bullpen task delete 3")
def delete(session: Session, task_id: TaskId) -> None:
    """Delete a task and every reference to it.

    Its id is not used again.
    """

    async def deleted(team: Team) -> Task:
        by, voice = await session.identity.speaks(team)
        return await team.tasks.delete(task_id, by=by, voice=voice)

    task = session.with_team(deleted)
    session.page.result(task.raw, f"Deleted task {task.id}: {task.subject}")


@examples(
    "bullpen task edit 3 --subject 'Write the lexer first'",
    "bullpen task edit 3 --check 'tests=make test'  # replaces its checks",
)
def edit(
    session: Session,
    task_id: TaskId,
    *,
    subject: Annotated[str | None, option("The task in a few words", "TEXT")] = None,
    description: Description = None,
    active_form: ActiveForm = None,
    proof: CheckOptions,
    no_checks: Annotated[bool, flag("Remove all checks", "--no-checks")] = False,
) -> None:
    """Edit the text or the checks of a task.

    An agent cannot change the checks of its own task.
    """
    checks = proof.checks()
    if no_checks and checks:
        raise typer.BadParameter("pass --no-checks or checks, not both.")
    words = not (subject is None and description is None and active_form is None)
    if not (words or checks or no_checks):
        raise typer.BadParameter("pass the text or the checks to change.")
    text = None if description is None else text_or_input(description)

    async def edited(team: Team) -> Task:
        by = await session.identity.acts(team)
        if checks or no_checks:
            # First, because it can be refused; then nothing was changed.
            task = await (await task_commands(session, team)).restate(task_id, checks)
        if words:
            task = await team.tasks.edit(
                task_id,
                by=by,
                subject=subject,
                description=text,
                active_form=active_form,
            )
        return task

    task = session.with_team(edited)
    session.page.result(task.raw, f"Changed task {task.id}: {task.subject}")


@examples("bullpen task check 3", "bullpen task check 3 --cwd ../alice --json")
def check(
    session: Session, task_id: TaskId, *, report: Report = None, cwd: CheckedIn = None
) -> None:
    """Run a task's checks and record the results.

    Exits with 1 if a check failed.
    """
    text = None if report is None else text_or_input(report)

    async def checked(team: Team) -> Task:
        door = await task_commands(session, team)
        proving = await door.proving(
            task_id, cwd=directory(cwd) if cwd else None, tell=RecordViews(session.page).checked
        )
        return await proving.check(task_id, report=text)

    if not RecordViews(session.page).proof(session.with_team(checked), report=text):
        raise typer.Exit(_FAILED)


@examples("bullpen task graph", "bullpen task graph --mermaid > tasks.mmd")
def graph(
    session: Session,
    *,
    mermaid: Annotated[bool, flag("Print a Mermaid flowchart", "--mermaid")] = False,
) -> None:
    """Show which tasks depend on which."""
    listing = session.with_team(lambda team: team.tasks.list())
    RecordViews(session.page).graph(listing, mermaid=mermaid)
