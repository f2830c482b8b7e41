"""MCP servers for tests, in this process: friendly ones of the SDK, and ones that misbehave."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.tools.mcp_servers.connection import ServerConnection
from bullpen.agents.tools.mcp_servers.servers import McpServers, client_of
from bullpen.agents.tools.outside_text.harmless import harmless

OBJECT: dict[str, Any] = {"type": "object"}


def friendly() -> MCPServer:
    """A server as the SDK's examples build them: two tools, a resource and a prompt."""
    server = MCPServer("weather")

    @server.tool()
    def forecast(city: str, days: int = 1) -> str:
        """Tell the weather of the next days."""
        return f"{days} days of rain in {city}"

    @server.tool()
    def broken() -> str:
        """Fail."""
        raise ValueError("no clouds today")

    @server.resource("weather://stations")
    def stations() -> str:
        """All stations."""
        return "north, south"

    @server.prompt()
    def ask(city: str) -> str:
        """Ask for the weather."""
        return f"How is it in {city}?"

    return server


Answer = Callable[[types.CallToolRequestParams], Awaitable[types.CallToolResult]]


def tool(name: str, about: str | None = "Do it.", schema: Any = None) -> types.Tool:
    """A tool as a server lists it, whatever it says."""
    return types.Tool.model_construct(
        name=name, description=about, input_schema=OBJECT if schema is None else schema
    )


async def say_done(params: types.CallToolRequestParams) -> types.CallToolResult:
    """Answer every call."""
    return said(f"{params.name} is done")


def said(text: str) -> types.CallToolResult:
    """A result with a text."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


def listing(tools: Sequence[types.Tool], answer: Answer = say_done) -> Server[Any]:
    """A server that lists these tools; the list can change while it runs."""

    async def on_list(context: object, params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(tools))

    async def on_call(context: object, params: types.CallToolRequestParams) -> types.CallToolResult:
        return await answer(params)

    return Server("listing", on_list_tools=on_list, on_call_tool=on_call)


def connected(
    name: str, server: Any, *, start_s: float = 30.0, call_s: float = 30.0
) -> ServerConnection:
    """A connection to a server in this process."""

    def open_client(connection: ServerConnection) -> AbstractAsyncContextManager[Client]:
        return client_of(server() if callable(server) else server, connection)

    return ServerConnection(name, open_client, start_s=start_s, call_s=call_s)


def servers(desk: Desk, *connections: ServerConnection) -> McpServers:
    """The servers of an agent."""
    return McpServers(connections, desk, clean=harmless)
