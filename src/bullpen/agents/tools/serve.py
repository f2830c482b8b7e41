"""The team's tools for a program that is not ours: as an MCP server, bound to one agent's desk."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from importlib import metadata

from mcp import types
from mcp.server.lowlevel import Server

from bullpen.agents.drivers.base import Desk
from bullpen.agents.tools.base import Tool
from bullpen.agents.tools.box import call as call_tool
from bullpen.agents.tools.box import toolbox

SERVER_NAME = "bullpen"
"""What programs call the server; their names for its tools are made from it."""

After = Callable[[str], Awaitable[str]]
"""What is done with the text of each result before it goes out: mail can be added to it."""


def team_tools(desk: Desk) -> list[Tool]:
    """The tools that a program with tools of its own needs of us: those that act on the team."""
    return [tool for tool in toolbox(desk) if tool.kind == "team"]


async def _as_it_is(text: str) -> str:
    return text


def tool_server(
    desk: Desk,
    *,
    tools: Callable[[Desk], Sequence[Tool]] = team_tools,
    after: After = _as_it_is,
    instructions: str | None = None,
) -> Server:
    """A server whose every call is made by this agent. Which tools there are is asked each time."""

    async def on_list(context: object, params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[described(tool) for tool in tools(desk)])

    async def on_call(context: object, params: types.CallToolRequestParams) -> types.CallToolResult:
        text, failed = await call_tool(tools(desk), params.name, params.arguments or {}, desk)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=await after(text))], is_error=failed
        )

    return Server(
        SERVER_NAME,
        version=metadata.version("bullpen"),
        instructions=instructions,
        on_list_tools=on_list,
        on_call_tool=on_call,
    )


def described(tool: Tool) -> types.Tool:
    """A tool as MCP describes it."""
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input.model_json_schema(),
    )
