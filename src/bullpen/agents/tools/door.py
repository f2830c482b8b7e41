"""Where the program of an agent finds the team's tools: a socket that only it can open.

Programs start MCP servers themselves, as children that talk over stdin and stdout. Such a child
could not share the runner's state (the attempts, the plan, the hooks), so it is only a relay
(`bullpen.agents.relay`) to this socket, where the runner itself answers. The key is in the
environment of that relay alone: whoever has it speaks as this agent, and as no other.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import sys

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage

from bullpen.agents.private_socket import PrivateSocket
from bullpen.agents.relay import KEY, SOCKET

LINE_BYTES_MAX = 16 * 1024 * 1024
"""No message of the protocol is longer."""


class Door:
    """A socket, from `open` to `aclose`, behind which one server answers whoever has the key."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._key = secrets.token_hex(16)
        self._socket = PrivateSocket(self._visit, bytes_max=LINE_BYTES_MAX)
        # Set when the program has come in: it has started the server that it was given.
        self.visited = asyncio.Event()

    @property
    def command(self) -> list[str]:
        """What the program has to start as its MCP server."""
        return [sys.executable, "-m", "bullpen.agents.relay"]

    @property
    def env(self) -> dict[str, str]:
        """The environment of that command."""
        return {SOCKET: self._socket.path, KEY: self._key}

    async def open(self) -> None:
        """Let the program in."""
        await self._socket.open()

    async def aclose(self) -> None:
        """Answer nobody any more."""
        await self._socket.aclose()

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        key = (await reader.readline()).strip().decode("ascii", "replace")
        if hmac.compare_digest(key.encode(), self._key.encode()):
            self.visited.set()
            await converse(self._server, reader, writer)


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
