"""`bullpen up` and `bullpen down`: a team that a file describes, started and stopped as one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from bullpen.cli.command import command
from bullpen.cli.session import Session, directory, is_terminal
from bullpen.cli.spawn_options import Cwd
from bullpen.cli.until_option import UntilOption

if TYPE_CHECKING:
    from bullpen.agents.supervisor import Stopped
    from bullpen.office import Office

File = Annotated[
    str, typer.Argument(metavar="FILE", help="The team file, in TOML.", show_default=False)
]
FileIfAny = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE", help="The file of the team; -t NAME does as well.", show_default=False
    ),
]


def register(app: typer.Typer) -> None:
    """Make these functions commands of `app`."""
    command(
        app,
        "up",
        examples=(
            "bullpen up TEAM.toml --dry-run",
            "bullpen up TEAM.toml",
            "bullpen up TEAM.toml --until 07:00 --json > ../night.jsonl",
            "bullpen up TEAM.toml --detach --cwd ~/project",
        ),
    )(up)
    command(app, "down", examples=("bullpen down TEAM.toml", "bullpen down -t mixed"))(down)


def up(
    session: Session,
    file: File,
    *,
    cwd: Cwd = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Leave them alone once all are started.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="S", min=0.1, help="Stop after so many seconds.", show_default=False),
    ] = None,
    until: UntilOption = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check all of it, show the plan and likely cost, and stop."),
    ] = False,
) -> None:
    """Start the team that a file describes, and watch until its end.

    That is its goal; without one, that all tasks are done and merged or given up.
    All members are started, or none. A team that was brought up before goes on where it was.
    Exits as `bullpen run` does. Ctrl-C stops the agents and keeps the team with its work.
    """
    session.refuse_agents("bring up a team")
    if detach and not (timeout is None and until is None):
        raise typer.BadParameter("--timeout and --until are for who watches: not with --detach.")
    attended = is_terminal(sys.stdin) and is_terminal(sys.stderr)
    where = directory(cwd)
    if dry_run:
        raise typer.Exit(session.team_files.rehearse(file, cwd=where, attended=attended))
    if not detach:
        outcome = session.team_files.follow(
            file, cwd=where, attended=attended, timeout_s=timeout, until=until
        )
        raise typer.Exit(outcome.code)
    team, started = session.team_files.start(file, cwd=where, attended=attended)
    session.show_agents.resumed(team, started, which=f"-t {team}{session.elsewhere}")


def down(session: Session, file: FileIfAny = None) -> None:
    """Stop all agents of a team. `bullpen up` lets them go on with what they had."""
    session.refuse_agents("bring down a team")
    name = None if file is None else session.team_files.name_in(file)

    async def end(office: Office, team: str) -> list[Stopped]:
        return await office.supervisor(team).stop_all(
            by=session.actor, end="suspended", reason="its team was brought down"
        )

    session.show_agents.stopped(session.with_office(end, name=name))
