"""Completing a task: its checks are run by the runtime, then the hooks, then it is done."""

from __future__ import annotations

from bullpen.agents.drivers.base import Desk
from bullpen.agents.hooking import Hooking
from bullpen.errors import Refused
from bullpen.team.rules import Done


async def complete(desk: Desk, hooks: Hooking, task_id: str, *, report: str | None) -> Done:
    """Complete a task of an agent's own.

    Raises:
        Refused: hook_refused, or whatever `tasks.done` refuses.
    """
    task = await desk.team.tasks.get(task_id)
    why = await hooks.task_completed(task)
    if why is not None:
        raise Refused(
            f"Task {task_id!r} is not done: {why}", reason="hook_refused", remedy="See to that."
        )
    attempt = desk.attempts.get(task_id)
    return await desk.team.tasks.done(task_id, by=desk.agent, attempt=attempt, report=report)
