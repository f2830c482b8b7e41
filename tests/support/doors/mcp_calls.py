"""Calling the tools of a team as a connected program."""

from __future__ import annotations

from typing import Any

from mcp import Client

OF_A_MEMBER = {
    "SendMessage", "TaskCreate", "TaskGet", "TaskUpdate", "TaskList", "ExitPlanMode",
    "WaitForMail", "TeamStatus", "ApproveRequest", "NotesRead", "NotesWrite",
    "Promise",
}  # fmt: skip
OF_THE_LEAD = {*OF_A_MEMBER, "TeamCreate", "TeamDelete", "SpawnTeammate", "StopTeammate"}
READ_ONLY = {"TaskGet", "TaskList", "NotesRead", "TeamStatus", "WaitForMail"}


async def names_of(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


async def ok(client: Client, tool: str, **given: Any) -> str:
    """The answer of a call that succeeds."""
    result = await client.call_tool(tool, given)
    text: str = result.content[0].text  # type: ignore[union-attr]
    assert not result.is_error, text
    return text


async def refused(client: Client, tool: str, **given: Any) -> str:
    """The answer of a call that fails."""
    result = await client.call_tool(tool, given)
    assert result.is_error, result.content
    text: str = result.content[0].text  # type: ignore[union-attr]
    return text
