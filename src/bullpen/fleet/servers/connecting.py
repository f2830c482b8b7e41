"""A connection to servers for as long as one command needs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from nats.aio.client import Client

from bullpen.store.nats.connection import Connection, Endpoint

CREDS = "BULLPEN_CREDS"
CA = "BULLPEN_CA"


@asynccontextmanager
async def connected(url: str, environ: Mapping[str, str]) -> AsyncIterator[Client]:
    """A client of the servers at `url`, with the credentials that an environment names.

    Raises:
        Invalid: it is no address of NATS servers.
        Unavailable: none of them answers.
    """
    endpoint = Endpoint.parse(url, creds=environ.get(CREDS), ca=environ.get(CA))
    connection = Connection(endpoint)
    try:
        yield await connection.client()
    finally:
        await connection.aclose()
