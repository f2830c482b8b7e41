"""Row e: the cost of thousands of mostly idle teams, and the loss of a server."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from bullpen.errors import Unavailable
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD
from bullpen.protocol.presence import Presence
from bullpen.store.nats.client.connection import Endpoint
from bullpen.store.nats.store import NatsStore
from figures import Figure, Row, percentile
from fleet_cell import Cell, cpu_s, memory_kb
from fleet_counts import FleetCounts
from fleet_figures import Costs, fleet_row
from fleet_hosts import Hosts, Pause
from fleet_scenery import agents_of, edit, for_each, make_team, message

_TASKS = 5
_BELIEVE_S = 1.0
_TTL_MS = 60_000
_ACTIVE_OF = 100
_GONE_S = 2.0
_PROBED = 16
_KILLED = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """What hosts and servers had used at one moment."""

    at: float
    hosts_cpu_s: float
    servers_cpu_s: float
    hosts_kb: int
    servers_kb: int

    @classmethod
    def now(cls, cell: Cell, hosts: Hosts) -> Moment:
        """The current values."""
        return cls(
            time.monotonic(),
            sum(map(cpu_s, hosts.pids)),
            cell.cpu_s(),
            memory_kb(hosts.pids),
            cell.memory_kb(),
        )


def _teams(counts: FleetCounts) -> list[str]:
    return [f"idle-{number}" for number in range(counts.idle_teams)]


async def rows(cell: Cell, counts: FleetCounts, costs: Costs) -> list[Row]:
    """Create teams, load them on hosts, let them wait, let a few work, kill a server."""
    store = NatsStore(cell.endpoint)
    try:
        async with Hosts(counts.idle_hosts, host, cell.endpoint, counts) as hosts:
            await hosts.found()
            empty = Moment.now(cell, hosts)
            await for_each(
                _teams(counts),
                lambda team: make_team(store, team, agents=counts.idle_agents, tasks=_TASKS),
            )
            made = Moment.now(cell, hosts)
            loading_s = max(await hosts.step())
            # First heartbeats are new and passed on at once, so they do not count.
            await anyio.sleep(counts.beat_s)
            begin = Moment.now(cell, hosts)
            await anyio.sleep(counts.idle_s)
            idle = Moment.now(cell, hosts)
            waits = [wait for found in await hosts.step() for wait in found]
            active = Moment.now(cell, hosts)
            found = _costs(counts, costs, empty, begin, idle)
            found += _made(counts, made.at - empty.at, loading_s)
            found += _active(counts, waits, idle, active)
            found += await _restart(cell, store, counts)
            await hosts.step()
    finally:
        await store.aclose()
    return found


def _costs(
    counts: FleetCounts, costs: Costs, empty: Moment, begin: Moment, end: Moment
) -> list[Row]:
    agents = counts.idle_teams * counts.idle_agents
    seconds = end.at - begin.at
    costs.idle_host_kb = (end.hosts_kb - empty.hosts_kb) / agents
    costs.idle_servers_kb = (end.servers_kb - empty.servers_kb) / agents
    costs.idle_host_us_per_s = (end.hosts_cpu_s - begin.hosts_cpu_s) / seconds / agents * 1e6
    costs.idle_servers_us_per_s = (end.servers_cpu_s - begin.servers_cpu_s) / seconds / agents * 1e6
    work = (
        f"{agents:,} agents of {counts.idle_teams:,} teams, a heartbeat every {counts.beat_s:g} s"
    )
    return [
        fleet_row(
            "e",
            f"{work}: memory of one in its host",
            Figure(costs.idle_host_kb, "KB"),
            note=f"{counts.idle_hosts} hosts, {end.hosts_kb / 1024:.0f} MB in all,"
            f" {empty.hosts_kb / 1024:.0f} MB without teams",
        ),
        fleet_row(
            "e",
            f"{work}: memory of one in three servers",
            Figure(costs.idle_servers_kb, "KB"),
            note=f"{end.servers_kb / 1024:.0f} MB in all,"
            f" {empty.servers_kb / 1024:.0f} MB without teams",
        ),
        fleet_row("e", f"{work}: hosts, one agent", Figure(costs.idle_host_us_per_s, "us/s")),
        fleet_row(
            "e", f"{work}: three servers, one agent", Figure(costs.idle_servers_us_per_s, "us/s")
        ),
    ]


def _made(counts: FleetCounts, making_s: float, loading_s: float) -> list[Row]:
    teams = f"{counts.idle_teams:,} teams"
    rate = counts.idle_teams / loading_s
    return [
        fleet_row("e", f"making {teams}", Figure(making_s, "s")),
        fleet_row(
            "e",
            f"loading and following {teams} on {counts.idle_hosts} hosts",
            Figure(loading_s, "s"),
            note=f"{rate:.0f} teams/s",
        ),
    ]


def _active(counts: FleetCounts, waits: Sequence[float], begin: Moment, end: Moment) -> list[Row]:
    seconds = end.at - begin.at
    hosts = (end.hosts_cpu_s - begin.hosts_cpu_s) / seconds * 100
    servers = (end.servers_cpu_s - begin.servers_cpu_s) / seconds * 100
    return [
        fleet_row(
            "e",
            f"1 % of them work, a commit every {counts.commit_every_s:g} s each: commit, p50",
            Figure(percentile(waits, 50) * 1e3, "ms"),
            note=f"{len(waits)} commits, p99 {percentile(waits, 99) * 1e3:.1f} ms;"
            f" all hosts {hosts:.1f} % of a core, all servers {servers:.1f} %",
        )
    ]


async def _restart(cell: Cell, store: NatsStore, counts: FleetCounts) -> list[Row]:
    """Kill a server while some teams are written to continuously."""
    waits: list[float] = []

    async def write(team: str) -> None:
        number = 0
        while True:
            number += 1
            begin = time.monotonic()
            await edit(store, team, 1, f"Step {number}")
            waits.append(time.monotonic() - begin)
            await anyio.sleep(0.1)

    async with anyio.create_task_group() as group:
        for team in _teams(counts)[:_PROBED]:
            group.start_soon(write, team)
        await anyio.sleep(1)
        cell.cluster.kill(_KILLED)
        await anyio.sleep(_GONE_S)
        begin = time.monotonic()
        await cell.cluster.restart(_KILLED)
        await cell.cluster.wait_ready()
        ready_s = time.monotonic() - begin
        await anyio.sleep(max(0.5, counts.outage_s - ready_s))
        group.cancel_scope.cancel()
    return [
        fleet_row("e", "a server killed: started until it is whole again", Figure(ready_s, "s")),
        fleet_row(
            "e",
            f"a server killed: the longest commit to one of {_PROBED} teams",
            Figure(max(waits), "s"),
            note=f"{len(waits)} commits, p50 {percentile(waits, 50) * 1e3:.1f} ms",
        ),
    ]


async def host(index: int, pause: Pause, endpoint: Endpoint, counts: FleetCounts) -> None:
    """A share of the teams, followed, with heartbeats of all agents."""
    store = NatsStore(endpoint, host=f"host-{index}", believe_s=_BELIEVE_S)
    await store.link.client()
    teams = _teams(counts)[index :: counts.idle_hosts]
    gc.collect()
    await pause(None)
    begin = time.monotonic()
    async with anyio.create_task_group() as group:
        await for_each(teams, lambda team: group.start(_follow, store, team))
        took = time.monotonic() - begin
        group.start_soon(_beat_all, store, teams, counts)
        await pause(took)
        await pause(await _work(store, teams, counts))
        group.cancel_scope.cancel()
    await store.aclose()


async def _follow(
    store: NatsStore, team: str, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED
) -> None:
    async with aclosing(store.watch(team)) as changes:
        async for _ in changes:
            # Somebody waits for it only the first time.
            task_status.started()
            task_status = TASK_STATUS_IGNORED


async def _beat_all(store: NatsStore, teams: Sequence[str], counts: FleetCounts) -> None:
    """Send heartbeats of all agents, spread evenly over the interval."""
    agents = [(team, agent) for agent in agents_of(counts.idle_agents) for team in teams]
    began, number = anyio.current_time(), 0
    since = now_ms()
    while True:
        team, agent = agents[number % len(agents)]
        beat = Presence.new(
            agent=agent,
            state="idle",
            since_ms=since,
            beat_ms=now_ms(),
            ttl_ms=_TTL_MS,
            host="host",
            pid=os.getpid(),
            start="1",
            nonce="0123456789abcdef",
        )
        # While a server is down, some heartbeats are rejected; later ones are accepted.
        with suppress(Unavailable):
            await store.beat(team, beat)
        number += 1
        await anyio.sleep_until(began + number * counts.beat_s / len(agents))


async def _work(store: NatsStore, teams: Sequence[str], counts: FleetCounts) -> list[float]:
    """Let one agent in a hundred write now and then; return how long each commit took."""
    waits: list[float] = []
    active = max(1, len(teams) * counts.idle_agents // _ACTIVE_OF)
    end = time.monotonic() + counts.idle_s

    async def work(number: int) -> None:
        team = teams[number % len(teams)]
        await anyio.sleep(counts.commit_every_s * number / active)
        while time.monotonic() < end:
            begin = time.monotonic()
            await store.append(team, agents_of(1)[0], message(), actor=LEAD, fresh=True)
            waits.append(time.monotonic() - begin)
            await anyio.sleep(counts.commit_every_s)

    async with anyio.create_task_group() as group:
        for number in range(active):
            group.start_soon(work, number)
    return waits
