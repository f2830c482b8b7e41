"""The MCP server over standard input and output, for the program that started it."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from bullpen.agents.drivers.tool_server.tool_socket import LINE_BYTES_MAX, converse
from bullpen.app.app import App
from bullpen.doors.mcp.member_tools import ToolSet
from bullpen.doors.mcp.members import ConnectedMembers
from bullpen.doors.mcp.server import team_server
from bullpen.doors.standard_streams import end_by_signal, standard_streams


async def serve_stdio(
    app: App,
    *,
    team: str | None,
    member: str,
    tool_set: ToolSet,
    cwd: str,
    warn: Callable[[str], object],
) -> None:
    """Answer the program that started this process, until it ends or a signal comes.

    Raises:
        Refused, NotFound, Invalid: the member cannot connect; nothing was answered.
    """
    async with ConnectedMembers(app, cwd=cwd, tool_set=tool_set, warn=warn) as members:
        connected = members.named(member, team)
        await connected.check()
        server = team_server(lambda _: connected, lambda: members.group)
        reader, writer = await standard_streams(LINE_BYTES_MAX, command="bullpen mcp")
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(end_by_signal, group.cancel_scope.cancel)
                await converse(server, reader, writer)
                group.cancel_scope.cancel()
        except* (OSError, ValueError):
            # The program ended, or sent a line that is too long for the protocol.
            pass
