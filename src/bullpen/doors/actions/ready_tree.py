"""The worktree of an agent that takes a task in its shell."""

from __future__ import annotations

from bullpen.by_name import load
from bullpen.protocol.task import Task
from bullpen.team.team import Team


async def got_ready(team: Team, by: str, task: Task) -> str | None:
    """Get the tree of an agent ready for a task that it took in its shell; what it must know.

    Raises:
        Refused, Unavailable: it could not be done, and the task is given back.
    """
    member = (await team.agents.config()).member(by)
    agent = None if member is None else member.agent
    if agent is None or agent.spec.own_tree is None:
        return None
    work = load("bullpen.agents.work.tree_of_task:TreeWork")(team, by, agent.spec)
    told: str | None = await work.begin(task)
    return told
