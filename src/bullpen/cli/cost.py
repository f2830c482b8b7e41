"""`bullpen cost`: what a team used, and where it went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bullpen.cli import complete
from bullpen.cli.command import command
from bullpen.cli.session import Session

if TYPE_CHECKING:
    from bullpen.protocol.roster import TeamConfig
    from bullpen.protocol.task import Task
    from bullpen.team.team import Team


def register(app: typer.Typer) -> None:
    """Make this function a command of `app`."""
    command(
        app,
        "cost",
        examples=("bullpen cost", "bullpen cost alice", "bullpen cost --by task --json"),
    )(cost)


def cost(
    session: Session,
    agent: Annotated[
        str | None,
        typer.Argument(
            metavar="AGENT",
            help="Only what this agent used.",
            show_default=False,
            autocompletion=complete.member_names,
        ),
    ] = None,
    *,
    by: Annotated[
        Literal["agent", "task", "model"] | None,
        typer.Option(
            metavar="WHAT", help="Only the table by agent, task or model.", show_default=False
        ),
    ] = None,
) -> None:
    """Show what a team used, where it went, and what is left of its budgets.

    Agents that have ended or left the team are counted too. What is no task's is coordination:
    requests made without a task in progress, and answers that only write messages or keep the task
    list. A request that is under way is not counted yet.
    """

    async def look(team: Team) -> tuple[TeamConfig, list[Task]]:
        return await team.agents.config(), (await team.tasks.list()).tasks

    config, tasks = session.with_team(look)
    session.show_cost.account(config, tasks, agent=agent, by=by)
