"""The MCP server over standard input and output, for the program that started it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress

import anyio

from bullpen.agents.drivers.tool_server.tool_socket import LINE_BYTES_MAX, converse
from bullpen.app.app import App
from bullpen.doors.mcp.member_tools import ToolSet
from bullpen.doors.mcp.members import ConnectedMembers
from bullpen.doors.mcp.server import team_server
from bullpen.errors import Invalid

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that shut a server down cleanly."""

_CHUNK_BYTES = 65_536


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
        reader, writer = await _standard_streams()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(end_by_signal, group.cancel_scope.cancel)
                await converse(server, reader, writer)
                group.cancel_scope.cancel()
        except* (OSError, ValueError):
            # The program ended, or sent a line that is too long for the protocol.
            pass


async def end_by_signal(end: Callable[[], object]) -> None:
    """Wait for a signal that ends the process, then call `end`."""
    with anyio.open_signal_receiver(*ENDINGS) as received:
        async for _ in received:
            end()


async def _standard_streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Standard input and output, reserved for the protocol.

    Everything else that is printed goes to standard error: it would break the protocol.
    """
    loop = asyncio.get_running_loop()
    wire_out = os.fdopen(os.dup(1), "wb", 0)
    os.dup2(2, 1)
    try:
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), wire_out
        )
    except ValueError:
        raise Invalid(
            "Standard output is not a pipe: `bullpen mcp` is meant to be started by a program.",
            remedy="Run `bullpen mcp --help` to see how programs start it.",
        ) from None
    reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    # Some inputs can only be read in a thread, and a thread that reads cannot be stopped. As a
    # daemon it does not keep the process alive.
    threading.Thread(target=_read, args=(os.dup(0), reader, loop), daemon=True).start()
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


def _read(wire: int, reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop) -> None:
    # The loop is closed if the server ended before its input.
    with suppress(OSError, RuntimeError):
        while data := os.read(wire, _CHUNK_BYTES):
            loop.call_soon_threadsafe(reader.feed_data, data)
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(reader.feed_eof)
