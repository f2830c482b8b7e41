"""`bullpen task`: the shared task list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bullpen.cli import complete
from bullpen.cli.command import Noun, command
from bullpen.cli.session import Session, text_or_input
from bullpen.errors import NotFound

if TYPE_CHECKING:
    from bullpen.protocol.task import Task
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


@command(
    noun.commands,
    "add",
    examples=(
        "bullpen task add 'Write the parser'",
        "bullpen task add 'Test the parser' --blocked-by 1 --owner alice",
        "bullpen task add 'Release' --check 'tests=make test' --check-file CHANGELOG.md",
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
    check: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=COMMAND", help="A command that must succeed. [repeatable]"),
    ] = None,
    check_file: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="A file that must be there. [repeatable]"),
    ] = None,
    needs_report: Annotated[
        bool, typer.Option("--needs-report", help="It takes a report to complete it.")
    ] = False,
) -> None:
    """Add a task."""
    checks = session.checks(commands=check or [], files=check_file or [], report=needs_report)
    text = text_or_input(description or "")
    task = session.with_team(
        lambda team: team.tasks.add(
            subject,
            by=session.actor,
            description=text,
            active_form=active_form,
            blocked_by=blocked_by or (),
            owner=owner,
            checks=checks,
        )
    )
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
    if task_id is None:
        task = session.with_team(lambda team: team.tasks.claim_next(by=session.actor, also=also))
    else:
        task = session.with_team(
            lambda team: team.tasks.claim(task_id, by=session.actor, also=also)
        )
    if task is None:
        raise NotFound(
            "No task is ready to be claimed.",
            remedy="See what they wait for: bullpen task list",
        )
    session.page.result(task.raw, f"{session.actor} has task {task.id}: {task.subject}")


@command(
    noun.commands,
    "done",
    examples=("bullpen task done 3 --as alice", "bullpen task done 3 --report 'All tests pass'"),
)
def done(
    session: Session,
    task_id: TaskId,
    *,
    report: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What was done; - reads it from input.")
    ] = None,
    attempt: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Refuse if the task is at another attempt."),
    ] = None,
) -> None:
    """Complete a task, and say what that unblocks."""
    text = None if report is None else text_or_input(report)
    outcome = session.with_team(
        lambda team: team.tasks.done(task_id, by=session.actor, attempt=attempt, report=text)
    )
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


@command(noun.commands, "delete", examples=("bullpen task delete 3",))
def delete(session: Session, task_id: TaskId) -> None:
    """Delete a task and every reference to it. Its id is not used again."""
    task = session.with_team(lambda team: team.tasks.delete(task_id, by=session.actor))
    session.page.result(task.raw, f"Deleted task {task.id}: {task.subject}")


@command(noun.commands, "edit", examples=("bullpen task edit 3 --subject 'Write the lexer first'",))
def edit(
    session: Session,
    task_id: TaskId,
    *,
    subject: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The task in a few words.")
    ] = None,
    description: Description = None,
    active_form: ActiveForm = None,
) -> None:
    """Change the words of a task."""
    if subject is None and description is None and active_form is None:
        raise typer.BadParameter("say what to change: --subject, --description or --active-form.")
    text = None if description is None else text_or_input(description)
    task = session.with_team(
        lambda team: team.tasks.edit(
            task_id, by=session.actor, subject=subject, description=text, active_form=active_form
        )
    )
    session.page.result(task.raw, f"Changed task {task.id}: {task.subject}")


@command(
    noun.commands,
    "check",
    examples=("bullpen task check 3 tests --failed --detail '2 of 40 fail'",),
)
def check(
    session: Session,
    task_id: TaskId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The check.")],
    *,
    passed: Annotated[bool, typer.Option("--passed/--failed", help="What it found.")],
    detail: Annotated[str | None, typer.Option(metavar="TEXT", help="More about it.")] = None,
) -> None:
    """Record what one of a task's checks found."""
    task = session.with_team(
        lambda team: team.tasks.record_check(
            task_id, name, by=session.actor, passed=passed, detail=detail
        )
    )
    word = "passed" if passed else "failed"
    session.page.result(task.raw, f"Check {name} of task {task.id} {word}.")


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
