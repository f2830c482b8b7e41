"""The private socket that serves the team tools to the program of one agent.

The program starts `relay` as its MCP server, which only passes bytes to this socket: the runner
answers here, with its state. The key in the relay's environment identifies the agent.
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

from bullpen.agents.drivers.tool_server.relay import KEY, SOCKET
from bullpen.agents.system.private_socket import PrivateSocket

LINE_BYTES_MAX = 16 * 1024 * 1024
"""The longest message of the protocol."""


class ToolSocket(PrivateSocket):
    """A socket on which one server answers every client that has the key."""

    def __init__(self, server: Server) -> None:
        super().__init__(self._serve, bytes_max=LINE_BYTES_MAX)
        self._server = server
        self._key = f"bpt_{secrets.token_hex(16)}"
        # Set when the program has connected: it has started the relay.
        self.visited = asyncio.Event()

    @property
    def command(self) -> list[str]:
        """The command that the program has to start as its MCP server."""
        return [sys.executable, "-m", "bullpen.agents.drivers.tool_server.relay"]

    @property
    def env(self) -> dict[str, str]:
        """The environment of that command."""
        return {SOCKET: self.path, KEY: self._key}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        key = (await self.in_time(reader.readline())).strip().decode("ascii", "replace")
        if hmac.compare_digest(key.encode(), self._key.encode()):
            self.visited.set()
            await converse(self._server, reader, writer)


async def converse(
    server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Run one session of the protocol, with one message per line in both directions."""
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
