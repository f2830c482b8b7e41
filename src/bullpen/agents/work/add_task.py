"""Add a task unless the hooks refuse it. They are asked before anything is stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from bullpen.errors import Conflict, Refused
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Task
from bullpen.team.tasks.drafts import Draft
from bullpen.team.team import Team

_TRIES = 3

Ask = Callable[[Task], Awaitable[str | None]]
"""Asks the hooks about a task; returns why it must not be added."""


async def add_task(
    team: Team, draft: Draft, ask: Ask | None, *, by: str, voice: Voice = "agent"
) -> Task:
    """Add a task with the id that the hooks were told; without hooks, `ask` is None.

    If others keep adding tasks meanwhile, the hooks are asked about it once it is stored.

    Raises:
        Refused: hook_refused, or as `tasks.add` does.
    """
    for _ in range(0 if ask is None else _TRIES):
        (planned,) = await team.tasks.add_many([draft], by=by, dry=True)
        _refuse(await _asked(ask, planned))
        with suppress(Conflict):
            return (await team.tasks.add_many([draft], by=by, first=planned.id))[0]
    (task,) = await team.tasks.add_many([draft], by=by)
    why = await _asked(ask, task)
    if why is not None:
        await team.tasks.delete(task.id, by=by, voice=voice)
    _refuse(why)
    return task


async def _asked(ask: Ask | None, task: Task) -> str | None:
    return None if ask is None else await ask(task)


def _refuse(why: str | None) -> None:
    if why is not None:
        raise Refused(
            f"The task was not added: {why}",
            reason="hook_refused",
            remedy="Fix that, then add the task again.",
        )
