"""`bullpen team resume` and `bullpen team delete`: what starts or removes the agents of a team."""

from __future__ import annotations

from typing import Annotated

import typer

from bullpen.agents.supervisor.start import Spawned
from bullpen.agents.work.tree_cleanup import TreeEnd
from bullpen.app.app import App
from bullpen.doors.cli.agents.agents_table import agent_views
from bullpen.doors.cli.agents.starting import starting
from bullpen.doors.cli.app_session import with_app
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options import completion
from bullpen.doors.cli.options.option import flag, option
from bullpen.doors.cli.runs.run_to_end import RunCommands
from bullpen.doors.cli.runs.watched import Plain
from bullpen.doors.cli.session import Session
from bullpen.doors.cli.teams.team import Name, NameIfAny
from bullpen.errors import Refused

_SAVED = "Work that was not merged is saved: bullpen workspace saved --repository ."


@examples("bullpen team resume", "bullpen team resume alpha --agent alice")
def resume(
    session: Session,
    name: NameIfAny = None,
    *,
    agent: Annotated[
        list[str] | None,
        option(
            "Start only this agent, even if somebody stopped it [repeatable]",
            "NAME",
            complete=completion.member_names,
        ),
    ] = None,
    plain: Plain = False,
) -> None:
    """Start the agents of a team again.

    Agents that were interrupted, lost or failed, or that reached a limit, continue where they
    stopped. A team that `bullpen run` or `bullpen up` created is watched until its end, as with
    these.
    """
    commands = RunCommands(session, plain=plain)
    pursuer, goal = commands.goal_of(name)
    if goal is not None and not agent:
        raise typer.Exit(commands.go_on(pursuer).code)

    async def start(app: App, team: str) -> tuple[str, list[Spawned]]:
        by = await session.identity.acts(app.teams.open(team))
        async with starting(session) as room:
            return team, await app.supervisor(team).resume(by=by, names=agent or None, room=room)

    team, resumed = with_app(session, start, name=pursuer)
    agent_views(session).resumed(team, resumed, which=f"-t {team}{session.elsewhere}")


@examples("bullpen team delete alpha", "bullpen team delete alpha --yes  # in a script")
def delete(
    session: Session,
    name: Name,
    *,
    force: Annotated[bool, flag("Even while members are working", "--force")] = False,
    yes: Annotated[bool, flag("Do not ask for confirmation", "--yes", "-y")] = False,
) -> None:
    """Delete a team with its tasks and messages.

    This cannot be undone. What exists only in its worktrees is saved first.
    """
    session.confirm(f"Delete team {name!r} with all its tasks and messages?", yes=yes)
    trees: list[TreeEnd] = []

    async def remove(app: App, team: str) -> bool:
        by = await session.identity.acts(app.teams.open(team))
        return await app.delete_team(team, by=by, force=force, told=trees.append)

    try:
        existed = with_app(session, remove, name=name)
    except Refused as error:
        if error.reason == "members_alive":
            stop = f"bullpen stop --all -t {name}{session.elsewhere}"
            error.remedy = f"Run {stop} first, or pass --force."
        raise
    for tree in trees:
        if tree.removed is None:
            session.page.warn(str(tree))
    session.page.result(
        "team-deleted/1",
        {"name": name, "deleted": existed}
        | ({"trees": [tree.as_json for tree in trees]} if trees else {}),
        f"Deleted team {name}." if existed else f"There was no team {name}.",
        *(str(tree) for tree in trees if tree.removed is not None),
        *([_SAVED] if any(tree.removed and tree.removed.saved for tree in trees) else []),
    )
