"""One program, over standard input and output: it started this process, and ends it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress

import anyio

from bullpen.agents.tools.door import LINE_BYTES_MAX, converse
from bullpen.errors import Invalid
from bullpen.mcp.reception import Reception
from bullpen.mcp.server import team_server
from bullpen.mcp.tools import ToolSet
from bullpen.office import Office

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that end a server in order."""

_CHUNK_BYTES = 65_536


async def serve_stdio(
    office: Office,
    *,
    team: str | None,
    member: str,
    tool_set: ToolSet,
    cwd: str,
    warn: Callable[[str], object],
) -> None:
    """Answer the program that started this process, until it goes or a signal comes.

    Raises:
        Refused, NotFound, Invalid: this member cannot be had; nobody was answered.
    """
    async with Reception(office, cwd=cwd, tool_set=tool_set, warn=warn) as reception:
        seat = reception.seat(member, team)
        await seat.check()
        server = team_server(lambda _: seat, lambda: reception.group)
        reader, writer = await _standard_streams()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(end_by_signal, group.cancel_scope.cancel)
                await converse(server, reader, writer)
                group.cancel_scope.cancel()
        except* (OSError, ValueError):
            # The program is gone, or sent a line that is too long to be one of the protocol.
            pass


async def end_by_signal(end: Callable[[], object]) -> None:
    """Wait for a signal that ends the process, then end in order."""
    with anyio.open_signal_receiver(*ENDINGS) as received:
        async for _ in received:
            end()


async def _standard_streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Standard input and output, for the protocol alone.

    Whatever else is printed goes to standard error: a stray word would break the protocol.
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
            "Standard output must be a pipe: a program starts this server.",
            remedy="See: bullpen mcp --help",
        ) from None
    reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    # Not every input can be waited for without a thread, and nothing can end one that reads. As a
    # daemon it keeps nobody.
    threading.Thread(target=_read, args=(os.dup(0), reader, loop), daemon=True).start()
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


def _read(wire: int, reader: asyncio.StreamReader, loop: asyncio.AbstractEventLoop) -> None:
    # The loop is closed when the server has ended before its input.
    with suppress(OSError, RuntimeError):
        while data := os.read(wire, _CHUNK_BYTES):
            loop.call_soon_threadsafe(reader.feed_data, data)
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(reader.feed_eof)
