"""One or three NATS servers for the duration of a test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bullpen.fleet.servers.config import SYNC
from bullpen.fleet.servers.server_process import Cluster


@asynccontextmanager
async def running(
    directory: Path, nodes: int = 1, *, sync: str = SYNC, extra: str = ""
) -> AsyncIterator[Cluster]:
    """Yield servers on free ports, ready, without streams. Stopped afterwards; data stays."""
    async with Cluster(directory, nodes, sync=sync, extra=extra) as cluster:
        yield cluster
