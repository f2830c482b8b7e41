"""Talk to an MCP server over streamable HTTP, with limits on what it may answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from bullpen.agents.tools.mcp_servers.definition import ServerDefinition

ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""How much a server may send in one answer or stream of events."""

_CONNECT_S = 30.0
_SILENCE_S = 300.0


@asynccontextmanager
async def http_transport(
    server: ServerDefinition,
    auth: httpx2.Auth | None = None,
    *,
    status: Callable[[int], None] = lambda _: None,
) -> AsyncIterator[TransportStreams]:
    """Connect to a server and yield the streams to it. `status` is told that of each answer."""

    async def look(response: httpx2.Response) -> None:
        status(response.status_code)
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream)

    client = httpx2.AsyncClient(
        headers=dict(server.headers),
        timeout=httpx2.Timeout(_CONNECT_S, read=_SILENCE_S),
        auth=auth,
        event_hooks={"response": [look]},
    )
    async with client, streamable_http_client(server.url, http_client=client) as streams:
        yield streams


class _Bounded(httpx2.AsyncByteStream):
    """A stream that fails when it gets too long."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream
        self._taken = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._taken += len(chunk)
            if self._taken > ANSWER_BYTES_MAX:
                raise httpx2.ReadError(f"The answer has more than {ANSWER_BYTES_MAX} bytes.")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
