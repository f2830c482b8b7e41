"""Who may state what proves a task done, and who may change it."""

from __future__ import annotations

from typing import Any

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.protocol.task import Check
from support.crews import Crew, Hired


async def use(desk: Desk, tool: str, **given: Any) -> tuple[str, bool]:
    return await call(toolbox(desk), tool, given, desk)


async def add(hired: Hired, *checks: dict[str, str]) -> tuple[str, bool]:
    return await use(
        hired.desk, "TaskCreate", subject="One", description="All of it", checks=list(checks)
    )


def command(run: str) -> Check:
    return Check.new(name="tests", kind="command", run=run)


async def test_a_hook_that_refuses_a_new_task_with_checks_removes_it(crew: Crew) -> None:
    hook = {"type": "command", "command": "echo no more tasks today >&2; exit 2"}
    ann = await crew.hire("ann", hooks={"TaskCreated": [{"hooks": [hook]}]})
    text, failed = await add(ann, {"kind": "report"})
    assert failed
    assert "no more tasks today" in text
    assert (await crew.team.tasks.list()).tasks == []
