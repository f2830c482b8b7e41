"""Row d: load a team that this process has never seen."""

from __future__ import annotations

import time

import nats

from bullpen.store.nats.client import subjects
from bullpen.store.nats.client.connection import NatsConnection
from bullpen.store.nats.directory import Directory
from bullpen.store.nats.store import NatsStore
from figures import Row, below, milliseconds, percentile
from fleet_cell import Cell
from fleet_counts import FleetCounts
from fleet_figures import Costs, beside, fleet_row, ratio_of
from fleet_scenery import edit, make_team

_TEAM = "cold"
_AGENTS = 10
_P50_MS = 5.0


async def rows(cell: Cell, counts: FleetCounts, costs: Costs) -> list[Row]:
    """Alternate between new stores and the same requests by the bare client."""
    await _prepare(cell, counts)
    connecting, loading, bare = [], [], []
    for _ in range(counts.loads):
        store = NatsStore(cell.one_server)
        begin = time.perf_counter()
        await store.link.client()
        connected = time.perf_counter()
        state = await store.read(_TEAM)
        loading.append(time.perf_counter() - connected)
        connecting.append(connected - begin)
        if len(state.tasks) != counts.loaded_tasks:
            raise RuntimeError(f"{len(state.tasks)} tasks were loaded.")
        await store.aclose()
        bare.append(await _bare(cell))
    ours = milliseconds(loading)
    least = milliseconds(bare, "its three requests")
    work = (
        f"loading a team of {_AGENTS} members, {counts.loaded_tasks} tasks,"
        f" {counts.loaded_events} events"
    )
    whole = [a + b for a, b in zip(connecting, loading, strict=True)]
    return [
        fleet_row(
            "d",
            f"{work}: new store, p50",
            ours,
            beside(below(ours, _P50_MS), ratio_of(ours, least)),
            least,
            f"p99 {percentile(loading, 99) * 1e3:.1f} ms",
        ),
        fleet_row("d", f"{work}: with the connection, p50", milliseconds(whole)),
    ]


async def _prepare(cell: Cell, counts: FleetCounts) -> None:
    store = NatsStore(cell.endpoint)
    try:
        await make_team(store, _TEAM, agents=_AGENTS, tasks=counts.loaded_tasks)
        for number in range((await store.read(_TEAM)).seq, counts.loaded_events):
            await edit(store, _TEAM, number % counts.loaded_tasks + 1, f"Step {number}")
    finally:
        await store.aclose()


async def _bare(cell: Cell) -> float:
    """Request the directory, the head of the log and the log, and ignore the answers."""
    link = NatsConnection(cell.one_server)
    try:
        address = (await Directory(link).find(_TEAM)).address
        if address is None:
            raise RuntimeError("The team is not there.")
        reader = await link.reader()
        client = await nats.connect(list(cell.one_server.servers))
        js = client.jetstream(timeout=10)
        begin = time.perf_counter()
        await js.get_last_msg(subjects.DIRECTORY_STREAM, subjects.team_key(_TEAM))
        await js.get_last_msg(address.stream, address.log)
        await reader.rows(address.stream, address.log, 1, timeout_s=5.0)
        took = time.perf_counter() - begin
        await client.close()
    finally:
        await link.aclose()
    return took
