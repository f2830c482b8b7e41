"""Where the program of an agent finds the team's tools: a socket that only it can open.

Programs start MCP servers themselves, as children that talk over stdin and stdout. Such a child
could not share the runner's state (the attempts, the plan, the hooks), so it is only a relay
(`bullpen.agents.relay`) to this socket, where the runner itself answers. The key is in the
environment of that relay alone: whoever has it speaks as this agent, and as no other.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import shutil
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage

from bullpen.agents.relay import KEY, SOCKET
from bullpen.errors import one_error

LINE_BYTES_MAX = 16 * 1024 * 1024
"""No message of the protocol is longer."""
_PREFIX = "bullpen-door-"


class Door:
    """A listening socket, from `open` to `aclose`, behind which one server answers."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._key = secrets.token_hex(16)
        self._folder: Path | None = None
        self._listening: asyncio.Server | None = None
        self._visits: set[asyncio.Task[None]] = set()
        # Set when the program has come in: it has started the server that it was given.
        self.visited = asyncio.Event()

    @property
    def command(self) -> list[str]:
        """What the program has to start as its MCP server."""
        return [sys.executable, "-m", "bullpen.agents.relay"]

    @property
    def env(self) -> dict[str, str]:
        """The environment of that command."""
        if self._folder is None:
            raise RuntimeError("The door is not open.")
        return {SOCKET: str(self._folder / "s"), KEY: self._key}

    async def open(self) -> None:
        """Listen. The folder is this user's alone, and its name short: sockets have no others."""
        await anyio.to_thread.run_sync(_remove_deserted)
        self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._listening = await asyncio.start_unix_server(
            self._visit, str(self._folder / "s"), limit=LINE_BYTES_MAX
        )

    async def aclose(self) -> None:
        """Answer nobody any more."""
        if self._listening is not None:
            self._listening.close()
        for visit in list(self._visits):
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._visits.add(task)
            task.add_done_callback(self._visits.discard)
        try:
            key = (await reader.readline()).strip().decode("ascii", "replace")
            if hmac.compare_digest(key.encode(), self._key.encode()):
                self.visited.set()
                with one_error():
                    await converse(self._server, reader, writer)
        except (OSError, ValueError):
            # The program is gone, or sent no line that could be one of the protocol.
            pass
        except asyncio.CancelledError:
            # The door is closed. A cancelled visit Python 3.11 would report as an error of ours.
            pass
        finally:
            with suppress(OSError):
                writer.close()


def _remove_deserted() -> None:
    """Remove the doors of runners that were killed: nobody listens there any more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            if folder.stat().st_uid != os.getuid():
                continue
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
                line.connect(str(folder / "s"))
        except ConnectionRefusedError:
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            # It is being made, or was removed meanwhile.
            continue


async def converse(
    server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """One session of the protocol: a message a line, each way."""
    into, heard = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    said, out = anyio.create_memory_object_stream[SessionMessage](0)

    async def listen() -> None:
        async with into:
            while line := await reader.readline():
                try:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError as error:
                    await into.send(error)
                    continue
                await into.send(SessionMessage(message))

    async def speak() -> None:
        async with out:
            async for each in out:
                text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(text.encode() + b"\n")
                await writer.drain()

    async with anyio.create_task_group() as group:
        group.start_soon(listen)
        group.start_soon(speak)
        await server.run(heard, said, server.create_initialization_options())
        group.cancel_scope.cancel()
