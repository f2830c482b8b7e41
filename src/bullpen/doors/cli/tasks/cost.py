"""`bullpen cost`: what a team used, and where it went."""

from __future__ import annotations

from typing import Annotated, Literal

from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options import completion
from bullpen.doors.cli.options.option import argument, option
from bullpen.doors.cli.session import Session
from bullpen.doors.cli.tasks.cost_view import CostViews
from bullpen.protocol.task import Task
from bullpen.protocol.team import TeamConfig
from bullpen.team.team import Team


@examples("bullpen cost", "bullpen cost alice", "bullpen cost --by task --json")
def cost(
    session: Session,
    agent: Annotated[
        str | None, argument("Show only this agent", "AGENT", complete=completion.member_names)
    ] = None,
    *,
    by: Annotated[
        Literal["agent", "task", "model"] | None,
        option("Show only the table by agent, task or model", "WHAT"),
    ] = None,
) -> None:
    """Show tokens and money used, by agent, task or model.

    Includes agents that ended or left the team. Coordination is what belongs to no task: requests
    made without a task in progress, and turns that only send messages or update the task list. A
    request in progress is not counted yet.
    """

    async def look(team: Team) -> tuple[TeamConfig, list[Task]]:
        return await team.agents.config(), (await team.tasks.list()).tasks

    config, tasks = session.with_team(look)
    CostViews(session.page, elsewhere=session.elsewhere).account(config, tasks, agent=agent, by=by)
