"""`bullpen task`: the shared task list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bullpen.cli import complete
from bullpen.cli.command import Noun, command
from bullpen.cli.session import Session, directory, text_or_input
from bullpen.errors import NotFound, Refused

if TYPE_CHECKING:
    from bullpen.protocol.task import Task
    from bullpen.team.rules import Done
    from bullpen.team.tasks import Listing
    from bullpen.team.team import Team

noun = Noun("Add, claim, complete and connect the tasks of a team.")

TaskId = Annotated[
    str, typer.Argument(metavar="ID", help="The task.", autocompletion=complete.task_ids)
]
OtherIds = Annotated[
    list[str],
    typer.Argument(metavar="ON", help="The other tasks.", autocompletion=complete.task_ids),
]
Description = Annotated[
    str | None, typer.Option(metavar="TEXT", help="What is to be done; - reads it from input.")
]
ActiveForm = Annotated[
    str | None, typer.Option(metavar="TEXT", help="The subject while it is worked on.")
]
CheckCommands = Annotated[
    list[str] | None,
    typer.Option(
        "--check", metavar="NAME=COMMAND", help="A command that must succeed. [repeatable]"
    ),
]
CheckFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--check-file",
        metavar="PATH",
        help="A file that must be there and not be empty; a pattern will do. [repeatable]",
    ),
]
CheckCommits = Annotated[
    list[str] | None,
    typer.Option(
        "--check-commit",
        metavar="BRANCH",
        help="A branch with a commit made since the task was claimed, or the id of a commit "
        "that must be on a branch. [repeatable]",
    ),
]
NeedsReport = Annotated[
    bool, typer.Option("--needs-report", help="It takes a report to complete it.")
]
Report = Annotated[
    str | None, typer.Option(metavar="TEXT", help="What was done; - reads it from input.")
]
CheckedIn = Annotated[
    str | None,
    typer.Option(
        "--cwd",
        metavar="DIR",
        help="Where its checks are run. [default: where the agent works that owns it, else here]",
        show_default=False,
    ),
]

_FAILED = 1


@command(
    noun.commands,
    "add",
    examples=(
        "bullpen task add 'Write the parser'",
        "bullpen task add 'Test the parser' --blocked-by 1 --owner alice",
        "bullpen task add 'Release' --check 'tests=make test' --check-file CHANGELOG.md",
        "bullpen task add 'Mend the lexer' --check-commit fix/lexer --needs-report",
    ),
)
def add(
    session: Session,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="The task in a few words.")],
    *,
    description: Description = None,
    active_form: ActiveForm = None,
    blocked_by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="It waits for this task. [repeatable]",
            autocompletion=complete.task_ids,
        ),
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Whose task it is.", autocompletion=complete.member_names
        ),
    ] = None,
    check: CheckCommands = None,
    check_file: CheckFiles = None,
    check_commit: CheckCommits = None,
    needs_report: NeedsReport = False,
    budget_turns: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Turns it may take.", show_default=False)
    ] = None,
    budget_tokens: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Tokens it may take.", show_default=False)
    ] = None,
    budget_usd: Annotated[
        float | None,
        typer.Option(metavar="X", min=0.0001, help="US dollars it may cost.", show_default=False),
    ] = None,
) -> None:
    """Add a task, with what proves it done and what it may use."""
    checks = session.checks(
        commands=check or [],
        files=check_file or [],
        commits=check_commit or [],
        report=needs_report,
    )
    text = text_or_input(description or "")

    async def added(team: Team) -> Task:
        door = await session.task_door(team)
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


@command(
    noun.commands,
    "list",
    examples=("bullpen task list --ready", "bullpen task list --status pending --owner alice"),
)
def list_tasks(
    session: Session,
    *,
    ready: Annotated[bool, typer.Option("--ready", help="Only what could be claimed now.")] = False,
    status: Annotated[
        Literal["pending", "in_progress", "completed"] | None,
        typer.Option(metavar="STATUS", help="Only pending, in_progress or completed."),
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Only this member's.", autocompletion=complete.member_names
        ),
    ] = None,
) -> None:
    """List the tasks, with what each still waits for."""

    async def look(team: Team) -> tuple[Listing, list[Task]]:
        listing = await team.tasks.list()
        return listing, await team.tasks.ready() if ready else listing.tasks

    listing, tasks = session.with_team(look)
    shown = [
        task
        for task in tasks
        if status in (None, task.status) and owner in (None, (task.owner or "").partition("@")[0])
    ]
    session.show.tasks(listing, shown)


@command(noun.commands, "show", examples=("bullpen task show 3",))
def show(session: Session, task_id: TaskId) -> None:
    """Show one task with all it says."""
    session.show.task(session.with_team(lambda team: team.tasks.get(task_id)))


@command(
    noun.commands,
    "claim",
    examples=("bullpen task claim --as alice", "bullpen task claim 3 --as alice"),
)
def claim(
    session: Session,
    task_id: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="The task. [default: the next one that is ready]",
            show_default=False,
            autocompletion=complete.task_ids,
        ),
    ] = None,
    *,
    also: Annotated[
        bool, typer.Option("--also", help="Even while you have another task in progress.")
    ] = False,
) -> None:
    """Take a task and start on it. Of several who try, exactly one gets it."""

    async def taken(team: Team) -> tuple[Task, str | None]:
        tasks, by = team.tasks, session.actor
        if task_id is None:
            task = await tasks.claim_next(by=by, also=also)
        else:
            task = await tasks.claim(task_id, by=by, also=also)
        if task is None:
            raise NotFound(
                "No task is ready to be claimed.",
                remedy="See what they wait for: bullpen task list",
            )
        if await session.speaks(team) != (by, "agent"):
            return task, None
        from bullpen.agents.task_door import got_ready

        return task, await got_ready(team, by, task)

    task, ready = session.with_team(taken)
    said = f"{session.actor} has task {task.id}: {task.subject}"
    session.page.result(task.raw, said, *([] if ready is None else [ready]))


@command(
    noun.commands,
    "done",
    examples=(
        "bullpen task done 3 --as alice",
        "bullpen task done 3 --report 'All tests pass'",
        "bullpen task done 3 --force 'The build machine is gone'",
    ),
)
def done(
    session: Session,
    task_id: TaskId,
    *,
    report: Report = None,
    attempt: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Refuse if the task is at another attempt."),
    ] = None,
    cwd: CheckedIn = None,
    force: Annotated[
        str | None,
        typer.Option(
            metavar="REASON", help="Complete it without its checks. Only people can; it is kept."
        ),
    ] = None,
) -> None:
    """Run a task's checks, complete it if they pass, and say what that unblocks."""
    text = None if report is None else text_or_input(report)

    async def completed(team: Team) -> Done:
        door = await session.task_door(team)
        if force is not None:
            return await team.tasks.force(
                task_id, by=door.by, voice=door.voice, reason=force, report=text
            )
        proving = await door.proving(
            task_id, cwd=directory(cwd) if cwd else None, tell=session.show.checked
        )
        try:
            return await proving.complete(task_id, attempt=attempt, report=text)
        except Refused as error:
            if session.json or error.reason != "checks_failed":
                raise
            # What each found was shown when it ended.
            first = error.message.partition("\n")[0]
            raise Refused(first, reason=error.reason, remedy=error.remedy) from None

    outcome = session.with_team(completed)
    unblocked = outcome.unblocked
    session.page.result(
        {"task": outcome.task.raw, "unblocked": list(unblocked)},
        f"Completed task {outcome.task.id}: {outcome.task.subject}",
        *([f"Ready now: task {', '.join(unblocked)}."] if unblocked else []),
    )


@command(
    noun.commands, "release", examples=("bullpen task release 3 --reason 'Needs a decision first'",)
)
def release(
    session: Session,
    task_id: TaskId,
    *,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why.")] = None,
) -> None:
    """Give a task back, so that others can claim it."""
    task = session.with_team(
        lambda team: team.tasks.release(task_id, by=session.actor, reason=reason)
    )
    session.page.result(task.raw, f"Task {task.id} is pending again: {task.subject}")


@command(noun.commands, "assign", examples=("bullpen task assign 3 alice",))
def assign(
    session: Session,
    task_id: TaskId,
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="The new owner.", autocompletion=complete.member_names),
    ],
) -> None:
    """Give a task to a member, who is told by a message."""
    task = session.with_team(lambda team: team.tasks.assign(task_id, name, by=session.actor))
    session.page.result(task.raw, f"Task {task.id} is {name}'s: {task.subject}")


@command(noun.commands, "depend", examples=("bullpen task depend 3 1 2  # 3 waits for 1 and 2",))
def depend(session: Session, task_id: TaskId, on: OtherIds) -> None:
    """Make a task wait for others. A circle is refused."""
    task = session.with_team(lambda team: team.tasks.depend(task_id, on, by=session.actor))
    session.page.result(task.raw, f"Task {task.id} waits for {', '.join(task.blocked_by)}.")


@command(noun.commands, "undepend", examples=("bullpen task undepend 3 1",))
def undepend(session: Session, task_id: TaskId, on: OtherIds) -> None:
    """Let a task no longer wait for others."""
    task = session.with_team(lambda team: team.tasks.undepend(task_id, on, by=session.actor))
    waits_for = ", ".join(task.blocked_by) or "nothing"
    session.page.result(task.raw, f"Task {task.id} waits for {waits_for}.")


@command(
    noun.commands,
    "give-up",
    examples=("bullpen task give-up 3 'It needs a decision by the customer'",),
)
def give_up(
    session: Session,
    task_id: TaskId,
    reason: Annotated[str, typer.Argument(metavar="REASON", help="Why; it is kept in the task.")],
) -> None:
    """Let nobody have a task any more, until it is retried."""
    session.refuse_agents("give a task up")
    why = " ".join(text_or_input(reason).split())
    if not why:
        raise typer.BadParameter("a reason says something.")
    task = session.with_team(lambda team: team.tasks.give_up(task_id, by=session.actor, reason=why))
    session.page.result(task.raw, f"Gave up task {task.id}: {task.subject}")


@command(noun.commands, "retry", examples=("bullpen task retry 3",))
def retry(session: Session, task_id: TaskId) -> None:
    """Let a task be tried again that was given up, by anybody."""
    session.refuse_agents("have a task retried")
    task = session.with_team(lambda team: team.tasks.retry(task_id, by=session.actor))
    session.page.result(task.raw, f"Task {task.id} can be taken again: {task.subject}")


@command(noun.commands, "delete", examples=("bullpen task delete 3",))
def delete(session: Session, task_id: TaskId) -> None:
    """Delete a task and every reference to it. Its id is not used again."""

    async def deleted(team: Team) -> Task:
        by, voice = await session.speaks(team)
        return await team.tasks.delete(task_id, by=by, voice=voice)

    task = session.with_team(deleted)
    session.page.result(task.raw, f"Deleted task {task.id}: {task.subject}")


@command(
    noun.commands,
    "edit",
    examples=(
        "bullpen task edit 3 --subject 'Write the lexer first'",
        "bullpen task edit 3 --check 'tests=make test'  # in place of the checks it has",
    ),
)
def edit(
    session: Session,
    task_id: TaskId,
    *,
    subject: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The task in a few words.")
    ] = None,
    description: Description = None,
    active_form: ActiveForm = None,
    check: CheckCommands = None,
    check_file: CheckFiles = None,
    check_commit: CheckCommits = None,
    needs_report: NeedsReport = False,
    no_checks: Annotated[bool, typer.Option("--no-checks", help="Nothing need prove it.")] = False,
) -> None:
    """Change the words of a task, or what proves it done: not of one's own task."""
    checks = session.checks(
        commands=check or [],
        files=check_file or [],
        commits=check_commit or [],
        report=needs_report,
    )
    if no_checks and checks:
        raise typer.BadParameter("--no-checks and checks contradict each other.")
    words = not (subject is None and description is None and active_form is None)
    if not (words or checks or no_checks):
        raise typer.BadParameter("say what to change: words or checks.")
    text = None if description is None else text_or_input(description)

    async def edited(team: Team) -> Task:
        if checks or no_checks:
            # First: it can be refused, and then nothing was changed.
            task = await (await session.task_door(team)).restate(task_id, checks)
        if words:
            task = await team.tasks.edit(
                task_id,
                by=session.actor,
                subject=subject,
                description=text,
                active_form=active_form,
            )
        return task

    task = session.with_team(edited)
    session.page.result(task.raw, f"Changed task {task.id}: {task.subject}")


@command(
    noun.commands,
    "check",
    examples=("bullpen task check 3", "bullpen task check 3 --cwd ../alice --json"),
)
def check(
    session: Session, task_id: TaskId, *, report: Report = None, cwd: CheckedIn = None
) -> None:
    """Run a task's checks and record what they found. Exits with 1 if one failed."""
    text = None if report is None else text_or_input(report)

    async def checked(team: Team) -> Task:
        door = await session.task_door(team)
        proving = await door.proving(
            task_id, cwd=directory(cwd) if cwd else None, tell=session.show.checked
        )
        return await proving.check(task_id, report=text)

    if not session.show.proof(session.with_team(checked), report=text):
        raise typer.Exit(_FAILED)


@command(
    noun.commands,
    "graph",
    examples=("bullpen task graph", "bullpen task graph --mermaid > tasks.mmd"),
)
def graph(
    session: Session,
    *,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a Mermaid flowchart.")] = False,
) -> None:
    """Show which task waits for which."""
    listing = session.with_team(lambda team: team.tasks.list())
    session.show.graph(listing, mermaid=mermaid)
