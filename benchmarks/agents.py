"""Measure a team of real agents: until they are ready, waiting, reached by a message, and stopped.

    python benchmarks/agents.py                      # 50 native agents and 120 messages
    python benchmarks/agents.py --driver scripted    # without a model client

Every agent is a process of its own, started and stopped by the supervisor; native ones use our own
model server, which answers at once. Messages are sent one at a time, to a random agent, while all
are idle. "Send to injected" is the wall time from the call of `send` here until the mark `injected`
can be read here: both times are from one clock, in one process that stays. "Send to request" ends
when the model server has the request. Processor time is that of the agents alone.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio

import machine
from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.supervisor.supervisor import Supervisor
from bullpen.agents.system import processes
from bullpen.agents.system.folders import home_mark
from bullpen.app.app import App
from bullpen.app.settings import settings_from
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.store.files.paths import TeamPaths
from bullpen.store.files.watch import inotify
from bullpen.team.team import Team
from bullpen.testing.models import ModelRequest, Reply
from figures import NO_GOAL, Figure, Goal, Row, below, figure_of, none_at_all, percentile
from native_spawn import MODELS, native_home
from report import options_parser, report, scratch, settled_load

_TEAM = "crowd"
_FIRST = 20
_AT_ONCE = 4
_READY_S = 300.0
_PATIENCE_S = 60.0
_SETTLE_S = 5.0
_LOOKS = 10
_GOAL_AGENTS = 50
_P50_MS, _P99_MS, _FIRST_S, _IDLE_PERCENT = 20.0, 60.0, 12.0, 3.0


@dataclass(slots=True)
class ModelServer:
    """Answers every request at once, and notes when each came."""

    asked: list[tuple[float, ModelRequest]] = field(default_factory=list)

    def answer(self, request: ModelRequest) -> Reply:
        """The brain of the model server."""
        self.asked.append((time.perf_counter(), request))
        return Reply("Done.")

    def came(self, text: str) -> float | None:
        """When the first request with this text came."""
        for at, request in self.asked:
            if any(text in turn.text for turn in request.turns):
                return at
        return None


@dataclass(frozen=True, slots=True)
class Crowd:
    """The agents of one home."""

    team: Team
    supervisor: Supervisor
    spec: AgentSpec
    names: Sequence[str]
    home: Path
    is_inside: bool

    def pids(self) -> list[int]:
        """Their processes; this one if they run inside it."""
        if self.is_inside:
            return [os.getpid()]
        mark = f"{home_mark(self.home)}-"
        return [pid for pid, nonce in processes.marked().items() if nonce.startswith(mark)]

    def used_s(self) -> float:
        """The processor time that they have used so far."""
        return machine.processor_s(self.pids())

    async def start(self, names: Sequence[str]) -> float:
        """Start these, a few at a time; returns the seconds until all are ready."""
        turn, begun = anyio.Semaphore(_AT_ONCE), time.perf_counter()

        async def one(name: str) -> None:
            async with turn:
                await self.supervisor.spawn(name, self.spec, by=LEAD, ready_s=_READY_S)

        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(one, name)
        return time.perf_counter() - begun

    async def all_idle(self) -> None:
        """Wait until every agent had its first turn, and each turn that began has ended."""
        with anyio.fail_after(_PATIENCE_S):
            while True:
                facts = [each.agent for each in (await self.team.agents.config()).roster]
                turns = [(each.usage.turns, each.turn_ended) for each in facts if each is not None]
                if all(begun and begun == ended for begun, ended in turns):
                    return
                await anyio.sleep(0.2)

    async def reach(self, name: str, text: str) -> tuple[float, float]:
        """When `send` was called, and when its message was marked as injected."""
        with (
            _notices(TeamPaths(str(self.home), _TEAM).mail) as queue,
            anyio.fail_after(_PATIENCE_S),
        ):
            begun = time.perf_counter()
            sent = await self.team.mailbox.send(name, text, sender=LEAD)
            while True:
                box = await self.team.mailbox.read(name)
                if any(each.id == sent.id and each.state != "stored" for each in box.entries):
                    return begun, time.perf_counter()
                await anyio.wait_readable(queue.fd)
                queue.read()


@contextmanager
def _notices(folder: str) -> Iterator[inotify.Inotify]:
    """Notices of what changes in a folder, at once."""
    queue = inotify.Inotify()
    try:
        queue.add(folder, inotify.NEW_NAMES)
        yield queue
    finally:
        queue.close()


@asynccontextmanager
async def crowd(
    folder: Path, env: dict[str, str], options: argparse.Namespace
) -> AsyncIterator[Crowd]:
    """A team whose agents are stopped at the end."""
    names = [f"agent-{number}" for number in range(options.agents)]
    script = folder / "script.toml"
    script.write_text("".join(f"[agents.{name}]\n" for name in names), "utf-8")
    settings = settings_from(env, home=folder / "home", team=_TEAM)
    async with App(settings, env) as app:
        await app.teams.create(_TEAM, cwd=str(folder))
        team, supervisor = app.teams.open(_TEAM), app.supervisor(_TEAM)
        many = 10 * (options.agents + options.messages)
        await team.agents.limit(by=LEAD, agents=many, spawns_per_minute=many, turns=many)
        native = options.driver == "native"
        request = SpawnRequest(
            driver=options.driver,
            model=MODELS["anthropic"] if native else None,
            script=None if native else str(script),
            backend=options.backend,
            cwd=str(folder),
            prompt="You are one of many. Wait for mail.",
            claims=False,
        )
        spec, inside = await app.resolve(request), options.backend == "in-process"
        try:
            yield Crowd(team, supervisor, spec, names, settings.home, inside)
        finally:
            await supervisor.stop_all(by=LEAD, grace_s=1)


async def measure(
    folder: Path, env: dict[str, str], server: ModelServer, options: argparse.Namespace
) -> list[Row]:
    """Start the agents, let them wait, reach them, list them, stop them."""
    about = f"{options.agents} {options.driver} agents"
    is_large, is_native = options.agents >= _GOAL_AGENTS, options.driver == "native"
    rows: list[Row] = []

    def row(work: str, figure: Figure, goal: Goal = NO_GOAL, note: str = "") -> None:
        rows.append(Row(len(rows) + 1, work, figure, goal, note=note, load=load))

    async with crowd(folder, env, options) as agents:
        load, first = machine.load(), agents.names[:_FIRST]
        ready = Figure(await agents.start(first), "s")
        goal = below(ready, _FIRST_S) if is_native and len(first) == _FIRST else NO_GOAL
        row(f"{len(first)} {options.driver} agents ready, {_AT_ONCE} at a time", ready, goal)
        await agents.start(agents.names[_FIRST:])
        await agents.all_idle()
        await anyio.sleep(min(_SETTLE_S, options.seconds))
        load = await settled_load(was_quiet=load <= machine.LOAD_MAX)
        idle = Figure(await _idle_percent(agents, options.seconds), "% of a core")
        goal = below(idle, _IDLE_PERCENT) if is_large else NO_GOAL
        row(f"{about}: idle, all together", idle, goal)
        used = agents.used_s()
        reached = await _reached(agents, server, options)
        for what, (p50, p99) in reached.items():
            judged = is_large and is_native and what == "injected"
            goals = (below(p50, _P50_MS), below(p99, _P99_MS)) if judged else (NO_GOAL, NO_GOAL)
            row(f"{about}, send to {what}: p50", p50, goals[0])
            row(f"{about}, send to {what}: p99", p99, goals[1])
        await agents.all_idle()
        used = (agents.used_s() - used) / options.messages
        row(f"{about}: processor time of one message and its turn", Figure(used * 1e3, "ms"))
        memory = [machine.memory_mb(pid) for pid in agents.pids()]
        private = figure_of([private for private, _ in memory], "MB")
        row(f"{about}: private memory of one", private)
        row(f"{about}: its share of all memory", figure_of([pss for _, pss in memory], "MB"))
        row(f"{about}: list them", await _looks(agents))
        begun = time.perf_counter()
        await agents.supervisor.stop_all(by=LEAD)
        row(f"{about}: stop all", Figure(time.perf_counter() - begun, "s"))
        left = Figure(0 if agents.is_inside else len(agents.pids()), "")
        row(f"{about}: left over", left, none_at_all(left))
    return rows


async def _idle_percent(agents: Crowd, seconds: float) -> float:
    begun, used = time.perf_counter(), agents.used_s()
    await anyio.sleep(seconds)
    return (agents.used_s() - used) / (time.perf_counter() - begun) * 100


async def _reached(
    agents: Crowd, server: ModelServer, options: argparse.Namespace
) -> dict[str, tuple[Figure, Figure]]:
    """The median and the 99th percentile of each way, in milliseconds."""
    injected, asked = [], []
    for number in range(options.messages):
        await anyio.sleep(random.uniform(0.5, 1.5) * options.pause)
        text = f"Look at part {number} of {options.messages}."
        begun, marked = await agents.reach(random.choice(agents.names), text)
        injected.append((marked - begun) * 1e3)
        if options.driver == "native":
            with anyio.fail_after(_PATIENCE_S):
                while (came := server.came(text)) is None:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
            asked.append((came - begun) * 1e3)
    ways = {"injected": injected} | ({"request": asked} if asked else {})
    return {
        way: (
            figure_of(found, "ms"),
            figure_of(found, "ms", pick=lambda values: percentile(values, 99)),
        )
        for way, found in ways.items()
    }


async def _looks(agents: Crowd) -> Figure:
    times = []
    for _ in range(_LOOKS):
        begun = time.perf_counter()
        await agents.supervisor.agents()
        times.append((time.perf_counter() - begun) * 1e3)
    return figure_of(times, "ms")


def main() -> None:
    """Parse the command line and run the benchmark."""
    parser = options_parser("Measure what a team of real agents costs.")
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=15.0, help="length of the idle phase")
    parser.add_argument("--messages", type=int, default=120)
    parser.add_argument("--pause", type=float, default=0.3, help="mean seconds between messages")
    parser.add_argument("--driver", choices=("native", "scripted"), default="native")
    parser.add_argument("--backend", choices=("subprocess", "in-process"), default="subprocess")
    options = parser.parse_args()
    server = ModelServer()
    with scratch(options, "agents") as folder, native_home(folder, server.answer) as env:
        rows = anyio.run(measure, folder, env, server, options)
    report(options, rows)


if __name__ == "__main__":
    main()
