"""Task operations of a command, as a person or as the agent that the command belongs to."""

from __future__ import annotations

import os

from anyio import to_thread

from bullpen.doors.actions.task_by_hand import TaskCommands, task_door
from bullpen.doors.cli.session import Session, directory
from bullpen.team.team import Team


async def task_commands(session: Session, team: Team) -> TaskCommands:
    """What this command may do with the tasks of a team."""
    by, voice = await session.identity.speaks(team)
    agent = (await team.agents.get(by))[1] if voice == "agent" else None
    return await to_thread.run_sync(
        lambda: task_door(
            team,
            by=by,
            cwd=directory(None),
            env=os.environ,
            home=session.settings.home,
            warn=session.page.warn,
            agent=agent,
        )
    )
