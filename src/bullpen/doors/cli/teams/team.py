"""`bullpen team create`, `list` and `show`."""

from __future__ import annotations

from contextlib import aclosing
from typing import Annotated

from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options import completion
from bullpen.doors.cli.options.option import argument, flag, option
from bullpen.doors.cli.output.records_view import RecordViews
from bullpen.doors.cli.session import Session, directory
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import name_by_time
from bullpen.protocol.team import TeamConfig
from bullpen.team.team import Team, Teams

NewName = Annotated[
    str | None, argument("Name of the new team [default: one with the time]", "NAME")
]
Name = Annotated[str, argument("The team", "NAME", complete=completion.team_names)]
NameIfAny = Annotated[
    str | None, argument("The team, same as -t NAME", "NAME", complete=completion.team_names)
]


@examples("bullpen team create alpha --description 'Ship the parser'", "bullpen team create")
def create(
    session: Session,
    name: NewName = None,
    *,
    description: Annotated[str | None, option("What the team is for", "TEXT")] = None,
    cwd: Annotated[
        str | None, option("Working directory of the lead [default: current directory]", "DIR")
    ] = None,
) -> None:
    """Create a team with its lead as the only member."""
    where = directory(cwd)

    async def made(teams: Teams) -> TeamConfig:
        by = await session.identity.founds()
        new = name or name_by_time("team", now_ms(), taken=await teams.names())
        return await teams.create(new, description=description, cwd=where, by=by)

    team = session.with_teams(made)
    session.page.result(
        "team-config/1",
        team.raw,
        f"Created team {team.name}. Try next:",
        f"  bullpen member add alice -t {team.name}{session.elsewhere}",
        f"  bullpen task add 'First task' -t {team.name}{session.elsewhere}",
    )


@examples("bullpen team list", "bullpen team list --json")
def list_teams(session: Session) -> None:
    """List all teams and their progress."""
    RecordViews(session.page).teams(session.with_teams(lambda teams: teams.list()))


@examples("bullpen team show", "bullpen team show alpha --watch --jsonl")
def show(
    session: Session,
    name: NameIfAny = None,
    *,
    watch: Annotated[bool, flag("Show every change as it happens", "--watch")] = False,
) -> None:
    """Show a team: members, tasks, requests, problems."""
    if watch:
        session.goes_on("--watch")
        session.with_team(lambda team: _watch(session, team), name=name)
    else:
        RecordViews(session.page).snapshot(
            session.with_team(lambda team: team.snapshot(), name=name)
        )


async def _watch(session: Session, team: Team) -> None:
    with session.page.frames() as picture:
        async with aclosing(team.snapshots()) as snapshots:
            async for snapshot in snapshots:
                RecordViews(session.page).change(snapshot, picture)
