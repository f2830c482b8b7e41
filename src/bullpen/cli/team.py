"""`bullpen team`: create, list, show, resume and delete teams."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer

from bullpen.cli import complete
from bullpen.cli.command import Noun, command
from bullpen.cli.session import Session, directory
from bullpen.errors import Refused

if TYPE_CHECKING:
    from bullpen.agents.launching import Spawned
    from bullpen.agents.tree_keeping import TreeEnd
    from bullpen.office import Office
    from bullpen.team.team import Team

noun = Noun("Create, list, show, resume and delete teams.")

NewName = Annotated[
    str, typer.Argument(metavar="NAME", help="The new team's name.", show_default=False)
]
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The team.", autocompletion=complete.team_names),
]
NameIfAny = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help="The team; the same as -t NAME.",
        show_default=False,
        autocompletion=complete.team_names,
    ),
]


@command(
    noun.commands,
    "create",
    examples=("bullpen team create alpha --description 'Ship the parser'",),
)
def create(
    session: Session,
    name: NewName,
    *,
    description: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the team is for.")
    ] = None,
    cwd: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where the lead works. [default: here]")
    ] = None,
) -> None:
    """Create a team, with its lead as the only member."""
    where = directory(cwd)
    team = session.with_teams(
        lambda teams: teams.create(name, description=description, cwd=where, by=session.actor)
    )
    session.page.result(
        team.raw,
        f"Created team {team.name}. Try next:",
        f"  bullpen member add alice -t {team.name}{session.elsewhere}",
        f"  bullpen task add 'First task' -t {team.name}{session.elsewhere}",
    )


@command(noun.commands, "list", examples=("bullpen team list", "bullpen team list --json"))
def list_teams(session: Session) -> None:
    """List all teams, with how far each has come."""
    session.show.teams(session.with_teams(lambda teams: teams.list()))


@command(noun.commands, "show", examples=("bullpen team show", "bullpen team show alpha --watch"))
def show(
    session: Session,
    name: NameIfAny = None,
    *,
    watch: Annotated[bool, typer.Option("--watch", help="Follow every change.")] = False,
) -> None:
    """Show a team: members, tasks, what waits for an answer, problems."""
    if watch:
        session.with_team(lambda team: _watch(session, team), name=name)
    else:
        session.show.snapshot(session.with_team(lambda team: team.snapshot(), name=name))


async def _watch(session: Session, team: Team) -> None:
    with session.page.frames() as picture:
        async with aclosing(team.snapshots()) as snapshots:
            async for snapshot in snapshots:
                session.show.change(snapshot, picture)


@command(
    noun.commands,
    "resume",
    examples=("bullpen team resume", "bullpen team resume alpha --agent alice"),
)
def resume(
    session: Session,
    name: NameIfAny = None,
    *,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only this agent, also if somebody stopped it. Can be repeated.",
            show_default=False,
            autocompletion=complete.member_names,
        ),
    ] = None,
) -> None:
    """Start the agents of a team again.

    Those that were interrupted, lost or failed, or that met a limit, go on where they were.
    A team that `bullpen run` or `bullpen up` made is watched until its end, as by these.
    """
    pursuer, goal = session.runs.goal_of(name)
    if goal is not None and not agent:
        raise typer.Exit(session.runs.go_on(pursuer).code)

    async def start(office: Office, team: str) -> tuple[str, list[Spawned]]:
        supervisor = office.supervisor(team)
        supervisor.tell = session.page.warn
        return team, await supervisor.resume(by=session.actor, names=agent or None)

    team, resumed = session.with_office(start, name=pursuer)
    session.show_agents.resumed(team, resumed, which=f"-t {team}{session.elsewhere}")


@command(
    noun.commands,
    "delete",
    examples=("bullpen team delete alpha", "bullpen team delete alpha --yes  # in a script"),
)
def delete(
    session: Session,
    name: Name,
    *,
    force: Annotated[bool, typer.Option("--force", help="Even while members are working.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a team with its tasks and messages. This cannot be undone."""
    session.confirm(f"Delete team {name!r} with all its tasks and messages?", yes=yes)
    trees: list[TreeEnd] = []
    try:
        existed = session.with_office(
            lambda office, team: office.delete_team(
                team, by=session.actor, force=force, told=trees.append
            ),
            name=name,
        )
    except Refused as error:
        if error.reason == "members_alive":
            stop = f"bullpen stop --all -t {name}{session.elsewhere}"
            error.remedy = f"Stop them first: {stop}. Or delete it with --force."
        raise
    for tree in trees:
        if tree.removed is None:
            session.page.warn(str(tree))
    session.page.result(
        {"name": name, "deleted": existed}
        | ({"trees": [tree.as_json for tree in trees]} if trees else {}),
        f"Deleted team {name}." if existed else f"There was no team {name}.",
        *(str(tree) for tree in trees if tree.removed is not None),
    )
