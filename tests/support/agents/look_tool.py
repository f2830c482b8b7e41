"""A tool for tests of the native driver: it says what there is to see."""

from __future__ import annotations

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Tool, ToolInput


class LookInput(ToolInput):
    """Where to look."""

    where: str


async def see(given: LookInput, desk: Desk) -> str:
    return f"fog in the {given.where}"


def tools(desk: Desk) -> list[Tool[Desk]]:
    """The only tool of an agent."""
    return [Tool("Look", "Look somewhere.", LookInput, "read", see)]
