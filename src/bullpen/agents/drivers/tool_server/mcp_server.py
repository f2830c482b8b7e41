"""The MCP server with the team tools of one agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Never

from mcp import types
from mcp.server.lowlevel import Server

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Tool
from bullpen.agents.tools.team_tools import TASK
from bullpen.agents.tools.tool_search import TOOL_SEARCH
from bullpen.agents.tools.toolbox import call as call_tool
from bullpen.agents.tools.toolbox import toolbox, without_spares

SERVER_NAME = "bullpen"
"""The name of the server. Programs derive their names for its tools from it."""


def team_tools(desk: Desk) -> list[Tool[Desk]]:
    """The team tools. The program has its own for everything else, often one named Task too."""
    others = (TASK, TOOL_SEARCH)
    tools = [tool for tool in toolbox(desk) if tool.kind == "team" and tool not in others]
    return without_spares(tools)


def tool_server(
    desk: Desk,
    *,
    in_turn: Callable[[], bool],
    tools: Callable[[Desk], Sequence[Tool[Desk]]] = team_tools,
) -> Server:
    """A server that makes every call as this agent, in its turns only.

    Its list of tools is computed each time.
    """

    async def on_list(context: object, params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[described(tool) for tool in tools(desk)])

    async def on_call(context: object, params: types.CallToolRequestParams) -> types.CallToolResult:
        if in_turn():
            text, failed = await call_tool(tools(desk), params.name, params.arguments or {}, desk)
        else:
            text, failed = f"{params.name} was not called: you have no turn.", True
            desk.record("trouble", text=text)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)], is_error=failed
        )

    return Server(
        SERVER_NAME,
        version=metadata.version("bullpen"),
        on_list_tools=on_list,
        on_call_tool=on_call,
    )


def described(tool: Tool[Never]) -> types.Tool:
    """A tool as MCP describes it."""
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input.model_json_schema(),
    )
