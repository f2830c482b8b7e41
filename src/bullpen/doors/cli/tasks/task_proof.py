"""`bullpen task check` and `bullpen task done`: whether a task is done."""

from __future__ import annotations

from typing import Annotated

import typer

from bullpen.doors.actions.task_proof import proving
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import option
from bullpen.doors.cli.output.records_view import RecordViews
from bullpen.doors.cli.session import Session, directory, text_or_input
from bullpen.doors.cli.tasks.task import TaskId
from bullpen.doors.cli.tasks.task_commands import task_commands
from bullpen.errors import Refused
from bullpen.protocol.task import Task
from bullpen.team.tasks.rules import Done
from bullpen.team.team import Team

Report = Annotated[str | None, option("What was done; - reads standard input", "TEXT")]


CheckedIn = Annotated[
    str | None,
    option("Where to run its checks [default: where its owner works, or here]", "DIR", "--cwd"),
]


_FAILED = 1


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
        proof = await proving(
            door,
            task_id,
            cwd=directory(cwd) if cwd else None,
            tell=RecordViews(session.page).checked,
        )
        try:
            return await proof.complete(task_id, attempt=attempt, report=text)
        except Refused as error:
            if session.json or error.reason != "checks_failed":
                raise
            # The result of each check was already shown.
            first = error.message.partition("\n")[0]
            raise Refused(first, reason=error.reason, remedy=error.remedy) from None

    outcome = session.with_team(completed)
    unblocked = outcome.unblocked
    session.page.result(
        "task-done/1",
        {"task": outcome.task.raw, "unblocked": list(unblocked)},
        f"Completed task {outcome.task.id}: {outcome.task.subject}",
        *([f"Ready now: task {', '.join(unblocked)}."] if unblocked else []),
    )


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
        proof = await proving(
            door,
            task_id,
            cwd=directory(cwd) if cwd else None,
            tell=RecordViews(session.page).checked,
        )
        return await proof.check(task_id, report=text)

    if not RecordViews(session.page).proof(session.with_team(checked), report=text):
        raise typer.Exit(_FAILED)
