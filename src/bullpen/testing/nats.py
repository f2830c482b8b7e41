"""A NATS server, or three, for as long as a test runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bullpen.fleet.servers.config import SYNC
from bullpen.fleet.servers.process import Cluster


@asynccontextmanager
async def running(
    directory: Path, nodes: int = 1, *, sync: str = SYNC, extra: str = ""
) -> AsyncIterator[Cluster]:
    """Servers on free ports, ready, without streams; gone afterwards. Their data stays."""
    async with Cluster(directory, nodes, sync=sync, extra=extra) as cluster:
        yield cluster
