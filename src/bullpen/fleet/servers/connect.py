"""A connection to servers for the duration of one command."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nats.aio.client import Client

from bullpen.store.nats.client.connection import Endpoint, NatsConnection


@asynccontextmanager
async def linked(
    url: str, *, creds: str | None = None, ca: str | None = None
) -> AsyncIterator[NatsConnection]:
    """Yield a connection to the servers at `url`, with the credentials and CA in these files.

    Raises:
        Invalid: it is not an address of NATS servers.
    """
    connection = NatsConnection(Endpoint.parse(url, creds=creds, ca=ca))
    try:
        yield connection
    finally:
        await connection.aclose()


@asynccontextmanager
async def connected(
    url: str, *, creds: str | None = None, ca: str | None = None
) -> AsyncIterator[Client]:
    """Yield the client of such a connection.

    Raises:
        Invalid: it is not an address of NATS servers.
        Unavailable: none of them answers.
    """
    async with linked(url, creds=creds, ca=ca) as connection:
        yield await connection.client()
