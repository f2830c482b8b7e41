"""An agent that completes tasks with checks."""

from __future__ import annotations

from typing import Any

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.protocol.task import Check
from support.crews import Crew, Hired


async def use(desk: Desk, tool: str, **given: Any) -> tuple[str, bool]:
    return await call(toolbox(desk), tool, given, desk)


def command(run: str, name: str = "tests") -> Check:
    return Check.new(name=name, kind="command", run=run)


async def at_work(crew: Crew, name: str = "ann", **fields: Any) -> Hired:
    """An agent that has claimed task 1, by its own tool."""
    hired = await crew.hire(name, **fields)
    text, failed = await use(hired.desk, "TaskUpdate", taskId="1", status="in_progress")
    assert not failed, text
    return hired


async def complete(hired: Hired, **given: Any) -> tuple[str, bool]:
    return await use(hired.desk, "TaskUpdate", taskId="1", status="completed", **given)
