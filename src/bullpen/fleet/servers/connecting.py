"""A connection to servers for as long as one command needs it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nats.aio.client import Client

from bullpen.store.nats.connection import Connection, Endpoint


@asynccontextmanager
async def linked(
    url: str, *, creds: str | None = None, ca: str | None = None
) -> AsyncIterator[Connection]:
    """A connection to the servers at `url`, with the credentials and the CA of these files.

    Raises:
        Invalid: it is no address of NATS servers.
    """
    connection = Connection(Endpoint.parse(url, creds=creds, ca=ca))
    try:
        yield connection
    finally:
        await connection.aclose()


@asynccontextmanager
async def connected(
    url: str, *, creds: str | None = None, ca: str | None = None
) -> AsyncIterator[Client]:
    """The client of such a connection.

    Raises:
        Invalid: it is no address of NATS servers.
        Unavailable: none of them answers.
    """
    async with linked(url, creds=creds, ca=ca) as connection:
        yield await connection.client()
