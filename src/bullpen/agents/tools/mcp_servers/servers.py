"""The MCP servers of one agent, and their tools.

The tools are those that the servers listed when the agent started: a server that renames or
changes a tool later does not change what the agent may call. A changed tool is refused.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp import Client
from mcp.client._transport import TransportStreams

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Tool
from bullpen.agents.tools.mcp_servers.catalog import (
    Catalog,
    ServerTool,
    catalog,
    changes,
    group_of,
)
from bullpen.agents.tools.mcp_servers.connection import ServerConnection
from bullpen.agents.tools.mcp_servers.definition import ServerDefinition, definition_of
from bullpen.agents.tools.mcp_servers.http_transport import http_transport
from bullpen.agents.tools.mcp_servers.oauth import TokenFile, stored_auth
from bullpen.agents.tools.mcp_servers.results import framed, tool_text
from bullpen.agents.tools.mcp_servers.schemas import Clean, ServerInput, input_type, short
from bullpen.agents.tools.mcp_servers.server_texts import TEXT_TOOLS, TextTool
from bullpen.agents.tools.mcp_servers.stdio_transport import (
    LastWords,
    server_environment,
    stdio_transport,
)
from bullpen.errors import BullpenError, Refused
from bullpen.protocol import json_text
from bullpen.store.private_folder import make_private

START_S = 30.0
"""How long a server may take to start and to list its tools."""

CALL_S = 120.0
"""How long a call may take."""

SHOWN_CHARS_MAX = 4_000
"""Servers whose tools together are shorter than this are shown at once; others are searched."""

RELIST_S = 60.0
"""How old the list of a server's tools may be when one of them is called."""

_PINS = "mcp_tools.json"
_NAMED_MAX = 5


@dataclass(slots=True)
class _Server:
    """One server: its connection, the tools as they were first, and those that changed since."""

    connection: ServerConnection
    pinned: Catalog = field(default_factory=Catalog)
    changed: dict[str, str] = field(default_factory=dict)
    listed_at: float = 0.0


class McpServers:
    """The servers of one agent. One that fails is told and left out; the others work."""

    def __init__(
        self, connections: Iterable[ServerConnection], desk: Desk, *, clean: Clean
    ) -> None:
        """`clean` changes text from others so that it cannot pose as ours."""
        self._servers = [_Server(each) for each in connections]
        self._desk = desk
        self._clean = clean
        self.tools: list[Tool[Desk]] = []
        # What the agent and its lead should know, one sentence each.
        self.failed: list[str] = []

    async def start(self) -> None:
        """Start all servers at once and list their tools. Never raises because of a server."""
        async with anyio.create_task_group() as tasks:
            for server in self._servers:
                tasks.start_soon(self._start, server)
        self.tools = self._made()
        await anyio.to_thread.run_sync(self._compare_with_last_start)

    async def aclose(self) -> None:
        """End all servers."""
        async with anyio.create_task_group() as tasks:
            for server in self._servers:
                tasks.start_soon(server.connection.aclose)

    async def _start(self, server: _Server) -> None:
        try:
            await server.connection.start()
            server.pinned = await self._listed(server)
        except BullpenError as error:
            await server.connection.aclose()
            text = self._desk.redacted(self._clean(error.message))
            self.failed.append(text)
            self._desk.record("trouble", text=text)
            return
        if left := server.pinned.left_out:
            more = f" and {len(left) - _NAMED_MAX} more" if len(left) > _NAMED_MAX else ""
            self._desk.record(
                "note",
                text=f"Left out tools of the MCP server {server.connection.name!r}:"
                f" {'; '.join(left[:_NAMED_MAX])}{more}.",
            )

    async def _listed(self, server: _Server) -> Catalog:
        """The tools of a server as it lists them now."""
        connection = server.connection
        listed = [] if connection.capabilities.tools is None else await connection.tools()
        server.listed_at = time.monotonic()
        # A server may list very much; its texts are cleaned beside the loop.
        return await anyio.to_thread.run_sync(catalog, connection.name, listed, self._clean)

    def _made(self) -> list[Tool[Desk]]:
        found: list[tuple[_Server, ServerTool]] = []
        for server in self._servers:
            found += [(server, tool) for tool in server.pinned.tools.values()]
        size = sum(
            len(tool.name) + len(tool.description) + len(json_text.dumps_line(tool.schema))
            for _, tool in found
        )
        deferred = size > SHOWN_CHARS_MAX
        tools = [self._tool(server, tool, deferred=deferred) for server, tool in found]
        for server in self._servers:
            tools += self._text_tools(server)
        return tools

    def _tool(self, server: _Server, tool: ServerTool, *, deferred: bool) -> Tool[Desk]:
        async def run(given: ServerInput, desk: Desk) -> str:
            return await self._call(server, tool, given.arguments)

        # What a server says about the effects of its tools is only a hint: every call may do
        # anything.
        return Tool(
            tool.name,
            tool.description,
            input_type(tool.name, tool.schema),
            "run",
            run,
            deferred=deferred,
            group=group_of(server.connection.name),
        )

    def _text_tools(self, server: _Server) -> Iterable[Tool[Desk]]:
        """Tools for the server's resources and prompts, if it has any."""
        connection = server.connection
        for each in TEXT_TOOLS:
            name = f"{group_of(connection.name)}__{each.name}"
            # A tool of the server with the same name is the server's.
            if each.offered(connection.capabilities) and name not in server.pinned.tools:
                yield Tool(
                    name,
                    each.description,
                    each.input,
                    "run",
                    self._text_runner(server, each),
                    deferred=True,
                    group=group_of(connection.name),
                )

    def _text_runner(self, server: _Server, each: TextTool) -> Callable[[Any, Desk], Any]:
        async def run(given: Any, desk: Desk) -> str:
            await server.connection.ensure()
            text = await each.run(given, server.connection)
            return framed(server.connection.name, text, self._clean)

        return run

    async def _call(self, server: _Server, tool: ServerTool, arguments: dict[str, Any]) -> str:
        await self._check_unchanged(server, tool)
        params = types.CallToolRequestParams(name=tool.own_name, arguments=arguments)
        result = await server.connection.ask(
            types.CallToolRequest(params=params), types.CallToolResult
        )
        text = framed(server.connection.name, tool_text(result), self._clean)
        if result.is_error:
            raise Refused(text, reason="mcp_error", remedy="The server's tool reports an error.")
        return text

    async def _check_unchanged(self, server: _Server, tool: ServerTool) -> None:
        """Refuse a tool that is not what it was when the agent started. Raises Refused."""
        connection = server.connection
        again = await connection.ensure()
        old = time.monotonic() - server.listed_at > RELIST_S
        if again or old or connection.list_changed:
            now = await self._listed(server)
            for name, what in changes(server.pinned.tools, now.tools).items():
                if name not in server.changed:
                    server.changed[name] = what
                    self._desk.record("trouble", text=f"The MCP tool {name} {what}.")
        if tool.name in server.changed:
            raise Refused(
                f"{tool.name} {server.changed[tool.name]} since you started. It was not called.",
                reason="tool_changed",
                remedy="Report it. A person can check the server and restart you.",
            )

    def _compare_with_last_start(self) -> None:
        """Say which tools changed since the agent's last start, and remember them as they are."""
        path = self._desk.folder / _PINS
        now = {
            tool.name: tool.digest
            for server in self._servers
            for tool in server.pinned.tools.values()
        }
        before = _read_pins(path)
        changed = sorted(name for name in before.keys() & now.keys() if before[name] != now[name])
        if changed:
            self._desk.record(
                "trouble",
                text=f"MCP tools changed since the last start: {short(', '.join(changed), 1_000)}.",
            )
        if before != {**before, **now}:
            try:
                make_private(path.parent)
                path.write_bytes(json_text.dumps({**before, **now}))
            except OSError as error:
                self._desk.record("trouble", text=f"Cannot write {path}: {error.strerror}.")


def _read_pins(path: Path) -> dict[str, str]:
    try:
        told = json_text.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return {str(k): str(v) for k, v in told.items()} if isinstance(told, dict) else {}


def servers_of(servers: Mapping[str, Any], desk: Desk, *, clean: Clean) -> McpServers:
    """The servers of an agent's spec, not started yet. Raises Invalid."""
    definitions = [definition_of(name, raw) for name, raw in servers.items()]
    return McpServers([_connection(each, desk, clean) for each in definitions], desk, clean=clean)


def _connection(definition: ServerDefinition, desk: Desk, clean: Clean) -> ServerConnection:
    words = LastWords()

    @asynccontextmanager
    async def open_client(connection: ServerConnection) -> AsyncIterator[Client]:
        given = definition.expanded(desk.env)
        async with client_of(_transport(given, desk, words), connection) as client:
            yield client

    return ServerConnection(
        definition.name,
        open_client,
        last_words=lambda: desk.redacted(clean(words.text(definition.name))),
        start_s=START_S,
        call_s=CALL_S,
    )


def client_of(server: Any, connection: ServerConnection) -> Client:
    """A client that answers nothing that a server asks, and keeps nothing."""
    return Client(
        server,
        message_handler=connection.heard,
        client_info=types.Implementation(name="bullpen", version=metadata.version("bullpen")),
        cache=None,
    )


@asynccontextmanager
async def _transport(
    given: ServerDefinition, desk: Desk, words: LastWords
) -> AsyncIterator[TransportStreams]:
    if given.command:
        env = server_environment(desk.env, given.env)
        async with stdio_transport(given.command, desk, env, words) as streams:
            yield streams
    else:
        home = desk.env.get("BULLPEN_HOME")
        own = {name.lower() for name in given.headers}
        auth = None
        if home and "authorization" not in own:
            auth = stored_auth(given.url, TokenFile(Path(home), given.url))
        async with http_transport(given, auth, status=words.answered) as streams:
            yield streams
