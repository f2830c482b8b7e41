"""A cell of three servers with all streams, and what it costs the machine."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from bullpen.fleet.servers.server_process import Cluster
from bullpen.store.nats.client.connection import Endpoint, NatsConnection
from bullpen.store.nats.client.streams import prepare

NODES = 3
PARTITIONS = 8
"""The number that the plan assumes for a cell of 25,000 teams."""

_TICKS = os.sysconf("SC_CLK_TCK")


class Cell:
    """Running servers."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @property
    def endpoint(self) -> Endpoint:
        """All three."""
        return Endpoint(tuple(self.cluster.urls))

    @property
    def one_server(self) -> Endpoint:
        """Always the same server, so that both sides of a comparison take the same route."""
        return Endpoint((self.cluster.urls[0],))

    @property
    def pids(self) -> list[int]:
        """The processes of the running servers."""
        count = len(self.cluster.nodes)
        return [self.cluster.pid(each) for each in range(count) if self.cluster.runs(each)]

    def cpu_s(self) -> float:
        """The processor time that all servers have used so far."""
        return sum(map(cpu_s, self.pids))

    def memory_kb(self) -> int:
        """The memory of all servers."""
        return memory_kb(self.pids)

    def disk_bytes(self) -> int:
        """The disk space of all servers."""
        return sum(
            file.stat().st_size
            for node in self.cluster.nodes
            for file in node.store_path.rglob("*")
            if file.is_file()
        )


@asynccontextmanager
async def cell(folder: Path) -> AsyncIterator[Cell]:
    """Run a cell while this is open; an acknowledged write is on three disks."""
    async with Cluster(folder / "servers", NODES) as cluster:
        found = Cell(cluster)
        link = NatsConnection(found.endpoint)
        try:
            await prepare(await link.client(), partitions=PARTITIONS, replicas=NODES)
        finally:
            await link.aclose()
        yield found


def cpu_s(pid: int) -> float:
    """The user and system time that a process has used so far."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory_kb(pids: Sequence[int]) -> int:
    """The private memory of processes, without what they share with others."""
    return sum(_private_kb(pid) for pid in pids)


def _private_kb(pid: int) -> int:
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
        rows = [line.split() for line in file if line.startswith("Private_")]
    return sum(int(row[1]) for row in rows)
