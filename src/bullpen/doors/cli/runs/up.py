"""`bullpen up` and `bullpen down`: start and stop the team of a team file."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from bullpen.agents.supervisor.supervisor import Stopped
from bullpen.app.app import App
from bullpen.doors.cli.agents.agents_table import agent_views
from bullpen.doors.cli.app_session import with_app
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.limits import Seconds, Until
from bullpen.doors.cli.options.option import argument, flag, option
from bullpen.doors.cli.options.record import Record, tape_request
from bullpen.doors.cli.options.spawn import Cwd, StrictModel
from bullpen.doors.cli.output.page import is_terminal
from bullpen.doors.cli.runs.team_files import TeamFileCommands
from bullpen.doors.cli.runs.watched import Plain
from bullpen.doors.cli.session import Session, directory
from bullpen.errors import NotFound
from bullpen.runs.teamfile.tables import ShapeChoice
from bullpen.runs.teamfile.templates import TEAM_FILE

File = Annotated[
    str | None, argument("The team file [default: TEAM.toml in this directory]", "FILE")
]
Shape = Annotated[
    ShapeChoice | None,
    option("Who works on new tasks: one agent, or the team; auto chooses for each", "SHAPE"),
]
FileIfAny = Annotated[str | None, argument("The team file, instead of -t NAME", "FILE")]


@examples(
    "bullpen up --dry-run",
    "bullpen up",
    "bullpen up TEAM.toml --until 07:00 --jsonl > ../night.jsonl",
    "bullpen up TEAM.toml --again",
    "bullpen up TEAM.toml --detach --cwd ~/project",
)
def up(
    session: Session,
    file: File = None,
    *,
    cwd: Cwd = None,
    detach: Annotated[bool, flag("Return once all agents have started", "--detach", "-d")] = False,
    timeout: Seconds = None,
    until: Until = None,
    again: Annotated[bool, flag("Run a finished team again from its beginning", "--again")] = False,
    shape: Shape = None,
    strict_model: StrictModel = False,
    plain: Plain = False,
    record: Record = None,
    dry_run: Annotated[
        bool, flag("Check everything, show the plan and likely cost, start nothing", "--dry-run")
    ] = False,
) -> None:
    """Start the team of a team file and watch it.

    The team works until its goal is reached; without a goal, until every task is done and merged or
    given up. All members start, or none. A team that was started before continues where it stopped.

    At a terminal the team's screen opens. Type to the lead, if there is one, and end the run with
    /finish. With --until, --plain, --json or without a terminal, it ends by itself.

    With --again, a finished team starts over: its log is copied beside its transcripts, its tasks
    are added anew, and files that its members wrote stay until the new run overwrites them.

    Exit codes are those of `bullpen run`. Ctrl-C stops the agents and keeps the team and its work.
    """
    if detach and (again or record or not (timeout is None and until is None)):
        raise typer.BadParameter(
            "--timeout, --until, --again and --record do not work with --detach."
        )
    file = file or _file_here()
    attended = is_terminal(sys.stdin) and is_terminal(sys.stderr)
    where = directory(cwd)
    if dry_run:
        code = TeamFileCommands(session).dry_run(file, cwd=where, attended=attended, shape=shape)
        raise typer.Exit(code)
    if not detach:
        outcome = TeamFileCommands(session).follow(
            file,
            cwd=where,
            attended=attended,
            strict_model=strict_model,
            timeout_s=timeout,
            until=until,
            again=again,
            shape=shape,
            plain=plain,
            tape=tape_request(record),
        )
        raise typer.Exit(outcome.code)
    team, started = TeamFileCommands(session).start(
        file, cwd=where, attended=attended, strict_model=strict_model, shape=shape
    )
    agent_views(session).resumed(team, started, which=f"-t {team}{session.elsewhere}")


def _file_here() -> str:
    """The team file of the current directory. Raises NotFound."""
    if not os.path.isfile(TEAM_FILE):
        raise NotFound(
            f"There is no {TEAM_FILE} in this directory.",
            remedy="Create one: bullpen init. Or name another file: bullpen up FILE",
        )
    return TEAM_FILE


@examples("bullpen down TEAM.toml", "bullpen down -t mixed")
def down(session: Session, file: FileIfAny = None) -> None:
    """Stop all agents of a team; `bullpen up` continues."""
    name = None if file is None else TeamFileCommands(session).name_in(file)

    async def end(app: App, team: str) -> list[Stopped]:
        by = await session.identity.acts(app.teams.open(team))
        return await app.supervisor(team).stop_all(
            by=by, end="suspended", reason="its team was brought down"
        )

    agent_views(session).stopped(with_app(session, end, name=name))
