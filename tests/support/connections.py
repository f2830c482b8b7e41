"""Connections that need no network: both ends are in this process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Any
from unittest import mock

import anyio
import uvicorn
from anyio.abc import SocketStream, UNIXSocketStream


@contextmanager
def connections_to(host: str, accept: Callable[[socket.socket], object]) -> Iterator[None]:
    """Give one end of a pair of sockets to whoever connects to a host, and the other to `accept`.

    That is how HTTP clients connect that are built on anyio. Other hosts are as usual.
    """
    elsewhere: Any = anyio.connect_tcp

    async def connect(
        remote_host: str, remote_port: int, **options: Any
    ) -> SocketStream | UNIXSocketStream:
        if remote_host != host:
            stream: SocketStream = await elsewhere(remote_host, remote_port, **options)
            return stream
        ours, theirs = socket.socketpair()
        accept(theirs)
        return await UNIXSocketStream.from_socket(ours)

    with mock.patch("anyio.connect_tcp", connect):
        yield


@asynccontextmanager
async def running(
    server: uvicorn.Server, host: str, taken: socket.socket | None = None
) -> AsyncIterator[None]:
    """Run a web server at a socket; without one, for clients of this process that name `host`."""
    ended = anyio.Event()

    async def run() -> None:
        await server.serve([] if taken is None else [taken])
        ended.set()

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await anyio.sleep(0.01)
        try:
            with nullcontext() if taken else connections_to(host, Acceptor(server)):
                yield
        finally:
            server.should_exit = True
            with anyio.CancelScope(shield=True), anyio.move_on_after(5):
                await ended.wait()
            group.cancel_scope.cancel()


class Acceptor:
    """Lets a web server speak at connections that it did not accept itself."""

    def __init__(self, server: uvicorn.Server) -> None:
        self._server = server
        self._opening: set[asyncio.Task[object]] = set()

    def __call__(self, connection: socket.socket) -> None:
        task = asyncio.get_running_loop().create_task(self._open(connection))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, connection: socket.socket) -> object:
        config = self._server.config
        protocol: Any = config.http_protocol_class
        return await asyncio.get_running_loop().connect_accepted_socket(
            lambda: protocol(
                config=config,
                server_state=self._server.server_state,
                app_state=self._server.lifespan.state,
            ),
            connection,
        )
