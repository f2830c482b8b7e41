"""Measure what an idle team costs, and how fast a message reaches a waiting agent.

    python benchmarks/idle.py --agents 50 --seconds 20

Each agent is a process that does what a runner does between two turns: it follows its team, checks
its mailbox whenever it wakes up, and sends a heartbeat every 4 seconds. First comes an idle phase;
then messages are sent to one agent after another. Processor time is the user and system time of all
agents together, so other programs on the machine hardly affect it. Latency is the wall time from
the call of `send` here until the agent has read the message there.
"""

from __future__ import annotations

import argparse
import random
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import anyio

from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD
from bullpen.protocol.presence import Presence
from bullpen.store.files.store import FileStore
from bullpen.team.team import Team, Teams
from crowd import context, prepare
from scenery import TEAM

_BEAT_S = 4.0
_PATIENCE_S = 120.0
_SETTLE_S = 1.0
_TARGETS = "targets: idle < 3 % of a core, p50 < 50 ms, p99 < 250 ms"


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
    """One process: processor time since it began, wake-ups and latencies since the last report."""

    cpu_s: float
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
            used = resource.getrusage(resource.RUSAGE_SELF)
            pipe.send(Report(used.ru_utime + used.ru_stime, agent.wakes, agent.latencies))
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
    """All agents, and what they had used at the last check."""

    def __init__(self, home: Path, names: Sequence[str], *, whole: bool) -> None:
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        self._cpu_s = 0.0
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

    def used(self) -> tuple[float, int, list[float]]:
        """Processor time, wake-ups and latencies since the last check."""
        for pipe in self._pipes:
            pipe.send("report")
        reports: list[Report] = [_received(pipe) for pipe in self._pipes]
        total = sum(report.cpu_s for report in reports)
        used, self._cpu_s = total - self._cpu_s, total
        latencies = [each for report in reports for each in report.latencies]
        return used, sum(report.wakes for report in reports), latencies

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


async def measure(home: Path, options: argparse.Namespace) -> None:
    """Print what waiting costs, and how fast messages arrive."""
    names = [f"agent-{number}" for number in range(options.agents)]
    team = await _team(home, names)
    crowd = Crowd(home, names, whole=options.whole)
    try:
        await anyio.sleep(_SETTLE_S)
        crowd.used()
        begin = time.perf_counter()
        await anyio.sleep(options.seconds)
        used, wakes, _ = crowd.used()
        wall = time.perf_counter() - begin
        print(f"idle: {used / wall * 100:.2f} % of a core in all, {wakes} wake-ups in {wall:.0f} s")
        await _send(team, names, options.messages)
        await anyio.sleep(_SETTLE_S)
        used, wakes, latencies = crowd.used()
    finally:
        crowd.end()
    if len(latencies) != options.messages:
        raise RuntimeError(f"{options.messages} were sent and {len(latencies)} arrived.")
    cuts = statistics.quantiles(latencies, n=100, method="inclusive")
    print(
        f"send to read: p50 {cuts[49] * 1e3:.1f} ms, p99 {cuts[98] * 1e3:.1f} ms,"
        f" max {max(latencies) * 1e3:.1f} ms of {options.messages}"
    )
    print(
        f"one message: {used / options.messages * 1e3:.2f} ms of processor time and"
        f" {wakes / options.messages:.1f} wake-ups, all agents together, heartbeats included"
    )


def main() -> None:
    """Parse the command line and run the benchmark."""
    parser = argparse.ArgumentParser(description="Measure what an idle team costs.")
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--messages", type=int, default=300)
    parser.add_argument("--whole", action="store_true", help="every agent follows all mail")
    parser.add_argument("--dir", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    prepare()
    options.dir.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="idle-", dir=options.dir))
    try:
        print(f"{options.agents} agents, a process each; {_TARGETS}")
        anyio.run(measure, home, options)
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
