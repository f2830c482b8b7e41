"""Measure what an idle team costs, and how fast a message reaches a waiting agent.

    python benchmarks/idle.py --agents 50 --seconds 20

Each agent is a process that does what a runner does between two turns: it follows its team, checks
its mailbox whenever it wakes up, and sends a heartbeat every 4 seconds. First comes an idle phase;
then messages are sent to one agent after another. Processor time is that of all agents together,
read from outside: neither their start nor their end counts, nor a question from here. Latency is
the wall time from the call of `send` here until the agent has read the message there.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import anyio

import machine
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD
from bullpen.protocol.presence import Presence
from bullpen.store.files.store import FileStore
from bullpen.team.team import Team, Teams
from crowd import context, prepare
from figures import NO_GOAL, Figure, Row, below, figure_of
from machine import processor_s
from report import options_parser, report, scratch
from scenery import TEAM

_BEAT_S = 4.0
_PATIENCE_S = 120.0
_SETTLE_S = 1.0
_STRETCHES = 3


@dataclass(slots=True)
class Agent:
    """What one process has seen since the last report."""

    name: str
    ready: bool = False
    wakes: int = 0
    latencies: list[float] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Report:
    """One process: wake-ups and latencies since the last report."""

    wakes: int
    latencies: list[float]


# In the agents


def live(pipe: Connection, home: Path, name: str, phase_s: float, whole: bool) -> None:
    """Run one agent until it is told to stop."""
    anyio.run(_live, pipe, home, Agent(name), phase_s, whole)


async def _live(pipe: Connection, home: Path, agent: Agent, phase_s: float, whole: bool) -> None:
    store = FileStore(home)
    async with anyio.create_task_group() as group:
        group.start_soon(_beat, store, agent.name, phase_s)
        group.start_soon(_follow, pipe, store, agent, whole)
        while True:
            await anyio.wait_readable(pipe)
            if pipe.recv() == "end":
                group.cancel_scope.cancel()
                break
            pipe.send(Report(agent.wakes, agent.latencies))
            agent.wakes, agent.latencies = 0, []
    await store.aclose()


async def _beat(store: FileStore, name: str, phase_s: float) -> None:
    # Staggered, because real agents are not started all at once either.
    await anyio.sleep(phase_s)
    while True:
        now = now_ms()
        await store.beat(TEAM, Presence.new(agent=name, state="idle", since_ms=now, beat_ms=now))
        await anyio.sleep(_BEAT_S)


async def _follow(pipe: Connection, store: FileStore, agent: Agent, whole: bool) -> None:
    team = Team(store, TEAM)
    changes = store.watch(TEAM) if whole else store.watch(TEAM, agent=agent.name)
    async with aclosing(changes):
        async for _ in changes:
            agent.wakes += 1
            box = await team.mailbox.read(agent.name)
            now = time.perf_counter()
            for entry in box.entries:
                if entry.id not in agent.seen:
                    agent.seen.add(entry.id)
                    agent.latencies.append(now - float(entry.message.text))
            if not agent.ready:
                agent.ready = True
                pipe.send("ready")


# Here


class Crowd:
    """All agents."""

    def __init__(self, home: Path, names: Sequence[str], *, whole: bool) -> None:
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        for index, name in enumerate(names):
            here, there = context.Pipe()
            phase_s = _BEAT_S * index / len(names)
            process = context.Process(target=live, args=(there, home, name, phase_s, whole))
            process.start()
            there.close()
            self._pipes.append(here)
            self._processes.append(process)
        for pipe in self._pipes:
            _received(pipe)

    def used_s(self) -> float:
        """The processor time of all agents so far; they do not notice."""
        return processor_s(process.pid for process in self._processes)

    def seen(self) -> tuple[int, list[float]]:
        """Wake-ups and latencies since the last time."""
        for pipe in self._pipes:
            pipe.send("report")
        reports: list[Report] = [_received(pipe) for pipe in self._pipes]
        latencies = [each for report in reports for each in report.latencies]
        return sum(report.wakes for report in reports), latencies

    def end(self) -> None:
        """Stop every agent."""
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            pipe.send("end")
            process.join(_PATIENCE_S)


def _received(pipe: Connection) -> Any:
    if not pipe.poll(_PATIENCE_S):
        raise RuntimeError("An agent does not answer.")
    return pipe.recv()


async def _team(home: Path, names: Sequence[str]) -> Team:
    store = FileStore(home)
    await Teams(store).create(TEAM)
    team = Team(store, TEAM)
    for name in names:
        await team.roster.join(name, by=LEAD)
        # Every agent starts with a message that says what it is for.
        await team.mailbox.send(name, repr(time.perf_counter()), sender=LEAD)
    return team


async def _send(team: Team, names: Sequence[str], count: int) -> None:
    for _ in range(count):
        await anyio.sleep(random.uniform(0.02, 0.08))
        to = random.choice(names)
        await team.mailbox.send(to, repr(time.perf_counter()), sender=LEAD)


async def measure(home: Path, options: argparse.Namespace) -> list[Row]:
    """What waiting costs, and how fast messages arrive."""
    names = [f"agent-{number}" for number in range(options.agents)]
    team = await _team(home, names)
    load = machine.load()
    crowd = Crowd(home, names, whole=options.whole)
    try:
        crowd.seen()
        await anyio.sleep(_SETTLE_S)
        shares = [await _share(crowd, options.seconds / _STRETCHES) for _ in range(_STRETCHES)]
        wakes, _ = crowd.seen()
        begun = crowd.used_s()
        await _send(team, names, options.messages)
        await anyio.sleep(_SETTLE_S)
        used = crowd.used_s() - begun
        told, latencies = crowd.seen()
    finally:
        crowd.end()
    if len(latencies) != options.messages:
        raise RuntimeError(f"{options.messages} were sent and {len(latencies)} arrived.")
    idle = figure_of(shares, "% of a core")
    cuts = statistics.quantiles([each * 1e3 for each in latencies], n=100, method="inclusive")
    around = (min(latencies) * 1e3, max(latencies) * 1e3)
    half, most = (Figure(cuts[at], "ms", "", len(latencies), around) for at in (49, 98))
    one = Figure(used / options.messages * 1e3, "ms", f"{told / options.messages:.1f} wake-ups")
    count = f"{options.agents} agents, a process each"
    work = (
        Row(1, f"{count}: idle, all together", idle, below(idle, 3.0), note=f"{wakes} wake-ups"),
        Row(2, f"{count}: send to read, p50", half, below(half, 50)),
        Row(3, f"{count}: send to read, p99", most, below(most, 250)),
        Row(4, f"{count}: processor time of one message, heartbeats included", one, NO_GOAL),
    )
    return [replace(row, load=load) for row in work]


async def _share(crowd: Crowd, seconds: float) -> float:
    """How much of a core all agents use together, in a stretch in which nothing happens."""
    begin, used = time.perf_counter(), crowd.used_s()
    await anyio.sleep(seconds)
    return (crowd.used_s() - used) / (time.perf_counter() - begin) * 100


def main() -> None:
    """Parse the command line and run the benchmark."""
    parser = options_parser("Measure what an idle team costs.")
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--messages", type=int, default=300)
    parser.add_argument("--whole", action="store_true", help="every agent follows all mail")
    options = parser.parse_args()
    prepare()
    with scratch(options, "idle") as home:
        rows = anyio.run(measure, home, options)
    report(options, rows)


if __name__ == "__main__":
    main()
