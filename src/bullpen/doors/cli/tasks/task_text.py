"""`bullpen task add` and `bullpen task edit`: what a task says, and what proves it done."""

from __future__ import annotations

from typing import Annotated

import typer

from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options import completion
from bullpen.doors.cli.options.checks import CheckOptions
from bullpen.doors.cli.options.option import argument, flag, option
from bullpen.doors.cli.session import Session, text_or_input
from bullpen.doors.cli.tasks.task import TaskId
from bullpen.doors.cli.tasks.task_commands import task_commands
from bullpen.protocol.task import Task
from bullpen.team.team import Team

Description = Annotated[str | None, option("What to do; - reads standard input", "TEXT")]


ActiveForm = Annotated[str | None, option("The subject as shown while in progress", "TEXT")]


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
    session.page.result("task/1", task.raw, f"Added task {task.id}: {task.subject}")


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
    session.page.result("task/1", task.raw, f"Changed task {task.id}: {task.subject}")
