"""Measure what a team of real agents costs: to start, keep, wake, list and stop them.

    python benchmarks/agents.py --agents 50 --seconds 20 --messages 200

Every agent is a real one, started and stopped by the supervisor, with the scripted driver, so that
no model is involved. Processor time is the user and system time of the agents alone, so other
programs on the machine hardly affect it; other times are wall times, which they do affect. Wake-up
is the time from the call of `send` here until the message is recorded as injected.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio

from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.supervisor.supervisor import Supervisor
from bullpen.agents.system import processes
from bullpen.agents.system.folders import home_mark
from bullpen.agents.system.transcript import rows
from bullpen.app.app import App
from bullpen.app.settings import settings_from
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.clock import ms_of, now_ms
from bullpen.protocol.names import LEAD
from bullpen.team.team import Team

_TEAM = "crowd"
_AT_ONCE = 4
_READY_S = 300.0
_PATIENCE_S = 300.0
_SETTLE_S = 5.0
_LOOKS = 10
_TICKS = os.sysconf("SC_CLK_TCK")
_TARGETS = {"idle_percent": 3.0, "wake_p50_ms": 50.0, "wake_p99_ms": 250.0}


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures. `load` is the machine's load while messages were sent, including ours."""

    agents: int
    backend: str
    spawn_s: float
    spawn_cpu_s: float
    idle_percent: float
    wake_p50_ms: float
    wake_p99_ms: float
    wake_max_ms: float
    message_cpu_ms: float
    rss_mb: float
    pss_mb: float
    look_ms: float
    stop_all_s: float
    left_over: int
    load: float


class Crowd:
    """The processes of all agents of one home; this process itself if they run inside it."""

    def __init__(self, home: Path, *, inside: bool) -> None:
        self._mark = f"{home_mark(home)}-"
        self._inside = inside

    def pids(self) -> list[int]:
        """The processes that carry the mark of this home."""
        if self._inside:
            return [os.getpid()]
        return [pid for pid, nonce in processes.marked().items() if nonce.startswith(self._mark)]

    def cpu_s(self) -> float:
        """The user and system time they have used so far."""
        return sum(_cpu_s(pid) for pid in self.pids())

    def memory_mb(self, what: str) -> float:
        """Their total memory: `Rss` counts shared pages in each process, `Pss` once."""
        return sum(_memory_kb(pid, what) for pid in self.pids()) / 1024


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _memory_kb(pid: int, what: str) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:"))


async def _spawn(supervisor: Supervisor, spec: AgentSpec, names: Sequence[str]) -> None:
    turn = anyio.Semaphore(_AT_ONCE)

    async def one(name: str) -> None:
        async with turn:
            await supervisor.spawn(name, spec, by=LEAD, ready_s=_READY_S)

    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(one, name)


async def _send(team: Team, names: Sequence[str], count: int, pause_s: float) -> dict[str, int]:
    """When each message was sent, by its id."""
    sent: dict[str, int] = {}
    for _ in range(count):
        await anyio.sleep(random.uniform(0.5, 1.5) * pause_s)
        begun = now_ms()
        message = await team.mailbox.send(random.choice(names), "Look at this", sender=LEAD)
        sent[message.id] = begun
    return sent


async def _waited_ms(
    supervisor: Supervisor, names: Sequence[str], sent: dict[str, int]
) -> list[int]:
    """How long each message took to enter a turn, according to the agents' transcripts."""
    with anyio.fail_after(_PATIENCE_S):
        while True:
            found: dict[str, int] = {}
            for name in names:
                for row in rows(await supervisor.transcript(name)):
                    if row["kind"] == "mail":
                        at = ms_of(row["time"])
                        assert at is not None
                        found |= {each: at - sent[each] for each in row["ids"] if each in sent}
            if found.keys() == sent.keys():
                return list(found.values())
            await anyio.sleep(0.5)


async def _look_ms(supervisor: Supervisor) -> float:
    times = []
    for _ in range(_LOOKS):
        begun = time.perf_counter()
        await supervisor.agents()
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e3


async def measure(folder: Path, options: argparse.Namespace) -> Figures:
    """Start the agents, let them wait, wake them, list them, stop them."""
    names = [f"agent-{number}" for number in range(options.agents)]
    script = folder / "script.toml"
    script.write_text("".join(f"[agents.{name}]\n" for name in names), "utf-8")
    settings = settings_from({"HOME": str(folder)}, home=folder / "home", team=_TEAM)
    async with App(settings, os.environ) as app:
        await app.teams.create(_TEAM, cwd=str(folder))
        team, supervisor = app.teams.open(_TEAM), app.supervisor(_TEAM)
        many = 10 * (options.agents + options.messages)
        await team.agents.limit(by=LEAD, agents=many, spawns_per_minute=many, turns=many)
        request = SpawnRequest(
            driver="scripted",
            backend=options.backend,
            cwd=str(folder),
            script=str(script),
            prompt="You are one of many. Wait for mail.",
            claims=False,
        )
        spec = await app.resolve(request)
        crowd = Crowd(settings.home, inside=options.backend == "in-process")
        try:
            return await _figures(crowd, team, supervisor, spec, names, options)
        finally:
            await supervisor.stop_all(by=LEAD, grace_s=1)


async def _figures(
    crowd: Crowd,
    team: Team,
    supervisor: Supervisor,
    spec: AgentSpec,
    names: Sequence[str],
    options: argparse.Namespace,
) -> Figures:
    begun, before = time.perf_counter(), crowd.cpu_s()
    await _spawn(supervisor, spec, names)
    spawn_s, spawn_cpu_s = time.perf_counter() - begun, crowd.cpu_s() - before
    await anyio.sleep(min(_SETTLE_S, options.seconds))
    begun, before = time.perf_counter(), crowd.cpu_s()
    await anyio.sleep(options.seconds)
    idle = (crowd.cpu_s() - before) / (time.perf_counter() - begun) * 100
    before = crowd.cpu_s()
    sent = await _send(team, names, options.messages, options.pause)
    waited = await _waited_ms(supervisor, names, sent)
    await anyio.sleep(min(_SETTLE_S, options.seconds))
    message_cpu_s = crowd.cpu_s() - before
    load = os.getloadavg()[0]
    cuts = statistics.quantiles(waited, n=100, method="inclusive")
    rss, pss = crowd.memory_mb("Rss"), crowd.memory_mb("Pss")
    look_ms = await _look_ms(supervisor)
    begun = time.perf_counter()
    await supervisor.stop_all(by=LEAD)
    stop_s = time.perf_counter() - begun
    left = 0 if options.backend == "in-process" else len(crowd.pids())
    return Figures(
        agents=len(names),
        backend=options.backend,
        spawn_s=spawn_s,
        spawn_cpu_s=spawn_cpu_s,
        idle_percent=idle,
        wake_p50_ms=cuts[49],
        wake_p99_ms=cuts[98],
        wake_max_ms=max(waited),
        message_cpu_ms=message_cpu_s / len(waited) * 1e3,
        rss_mb=rss / len(names),
        pss_mb=pss / len(names),
        look_ms=look_ms,
        stop_all_s=stop_s,
        left_over=left,
        load=load,
    )


def _table(figures: Figures) -> str:
    lines = ["| figure | value | target |", "| --- | --- | --- |"]
    for name, value in asdict(figures).items():
        target = f"< {_TARGETS[name]:g}" if name in _TARGETS else "-"
        shown = f"{value:.2f}" if isinstance(value, float) else str(value)
        lines.append(f"| {name} | {shown} | {target} |")
    return "\n".join(lines)


def main() -> None:
    """Parse the command line and run the benchmark."""
    parser = argparse.ArgumentParser(description="Measure what a team of real agents costs.")
    parser.add_argument("--agents", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of the idle phase")
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--pause", type=float, default=1.0, help="mean seconds between messages")
    parser.add_argument("--backend", choices=("subprocess", "in-process"), default="subprocess")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--dir", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    options.dir.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="agents-", dir=options.dir))
    try:
        figures = anyio.run(measure, folder, options)
    finally:
        shutil.rmtree(folder)
    print(_table(figures))
    if options.json is not None:
        options.json.write_text(json.dumps(asdict(figures), indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
