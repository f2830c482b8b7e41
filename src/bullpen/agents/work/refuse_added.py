"""Remove a task that a hook refused when it was added."""

from __future__ import annotations

from typing import NoReturn

from bullpen.errors import Refused
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Task
from bullpen.team.team import Team


async def refuse_added(team: Team, task: Task, why: str, *, by: str, voice: Voice) -> NoReturn:
    """Remove a task that was just added and that a hook refused. Raises Refused: hook_refused."""
    await team.tasks.delete(task.id, by=by, voice=voice)
    raise Refused(
        f"The task was not added: {why}",
        reason="hook_refused",
        remedy="Fix that, then add the task again.",
    )
