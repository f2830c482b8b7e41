"""What an agent is told of promises when it begins a task."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from bullpen.agents.runner.desk import RunnerDesk
from bullpen.errors import Unavailable
from bullpen.protocol.task import Task

TASK = Task.parse({"id": "1", "subject": "Cut", "description": "", "status": "in_progress"})


async def begun(promised: Any) -> tuple[str | None, dict[str, int]]:
    """What the agent is told, and the attempts that its desk knows afterwards."""

    async def begin(_: Task) -> str:
        return "Your worktree is ready."

    desk = SimpleNamespace(
        attempts={},
        team=SimpleNamespace(name="alpha", promises=SimpleNamespace(promised=promised)),
        _work=SimpleNamespace(begin=begin),
    )
    desk._promised_for = lambda task: RunnerDesk._promised_for(cast("Any", desk), task)
    told = await RunnerDesk.begin_task(cast("Any", desk), TASK)
    return told, desk.attempts


async def test_a_store_that_fails_after_a_task_was_begun_does_not_give_it_back() -> None:
    async def fails() -> None:
        raise Unavailable("The store does not answer.", remedy="Wait.")

    told, attempts = await begun(fails)
    assert told is not None
    assert told.startswith("Your worktree is ready.\nPromises of other members cannot be read: ")
    assert "1" in attempts


async def test_no_promises_are_not_mentioned() -> None:
    async def none() -> SimpleNamespace:
        return SimpleNamespace(tasks={"1": TASK})

    told, _ = await begun(none)
    assert told == "Your worktree is ready."
