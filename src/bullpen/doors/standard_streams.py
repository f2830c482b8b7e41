"""Standard input and output as the wire of a protocol, for servers that a program starts."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress

import anyio

from bullpen.errors import Invalid

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that shut a server down cleanly."""

_CHUNK_BYTES = 65_536


async def end_by_signal(end: Callable[[], object]) -> None:
    """Wait for a signal that ends the process, then call `end`."""
    with anyio.open_signal_receiver(*ENDINGS) as received:
        async for _ in received:
            end()


async def standard_streams(
    line_bytes_max: int, *, command: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
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
            f"Standard output is not a pipe: `{command}` is meant to be started by a program.",
            remedy=f"Run `{command} --help` to see how programs start it.",
        ) from None
    reader = asyncio.StreamReader(limit=line_bytes_max)
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
