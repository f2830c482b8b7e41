"""What the suites of the NATS store share: servers, and a store without teams on them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
from nats.aio.client import Client

from bullpen.fleet.servers.server_process import Cluster
from bullpen.store.contract import StoreLimits
from bullpen.store.nats.client.api_requests import api, replace
from bullpen.store.nats.client.connection import Endpoint, NatsConnection
from bullpen.store.nats.client.streams import prepare
from bullpen.store.nats.store import NatsStore


@contextmanager
def servers(nodes: int, partitions: int = 2) -> Iterator[Cluster]:
    """Servers with all streams, for as long as a module's tests run."""
    directory = Path(tempfile.mkdtemp(prefix="bullpen-nats-"))
    cluster = Cluster(directory, nodes)

    async def begin() -> None:
        await cluster.start()
        link = NatsConnection(endpoint_of(cluster))
        try:
            await prepare(await link.client(), partitions=partitions, replicas=nodes)
        finally:
            await link.aclose()

    try:
        anyio.run(begin)
        yield cluster
    finally:
        anyio.run(cluster.stop)
        shutil.rmtree(directory, ignore_errors=True)


def endpoint_of(cluster: Cluster) -> Endpoint:
    return Endpoint(tuple(cluster.urls))


async def empty(client: Client) -> None:
    """Remove everything that any test left on the servers."""
    for partition in range(2):
        await api(client, f"STREAM.PURGE.TEAM_{partition:02d}", None, timeout_s=10)
    await forget(client, "KV_TEAMS", "$KV.TEAMS.team.*")


async def forget(client: Client, stream: str, subject: str) -> None:
    """Replace everything in a stream that cannot be purged by something empty."""
    last = await api(client, f"STREAM.INFO.{stream}", {"subjects_filter": subject}, timeout_s=10)
    for known in last["state"].get("subjects") or {}:
        await replace(client, known, b"", timeout_s=10)


async def empty_store(cluster: Cluster, limits: StoreLimits | None = None) -> NatsStore:
    """A store on servers without teams."""
    store = NatsStore(endpoint_of(cluster), limits=limits)
    await empty(await store.link.client())
    return store
