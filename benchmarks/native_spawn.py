"""Measure what starting native agents costs, without and with a warm parent.

    python benchmarks/native_spawn.py --rounds 5 --agents 20

The agents are real, on our own model server, and `bullpen spawn` starts them. A row is one API and
one kind of start. `cold` is without a warm parent, `first` starts the warm parent, and `warm` forks
from it. Processor time is user and system time: `command` is that of `bullpen spawn`, `agent` that
of the agent's process until it is ready. Wall times are from the start of the command until it
reports that the agent is ready. Memory is that of an idle agent after its first turn: `private` is
what it shares with nobody, `pss` is its share of everything. `--agents` are started by one process,
a few at a time. Figures are medians, with the smallest and biggest in brackets.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import anyio

from bullpen.agents.backends.warm_start import starter
from bullpen.agents.config.spec import SpawnRequest
from bullpen.agents.system import processes
from bullpen.app.app import App
from bullpen.app.settings import settings_from
from bullpen.protocol.names import LEAD
from bullpen.testing.models import MockModels, Reply
from machine import LOAD_MAX

_TEAM = "bench"
_MODELS = {"anthropic": "anthropic:claude-sonnet-5-5", "openai-chat": "openai-chat:gpt-6.1-sol"}
_KINDS = ("cold", "first", "warm")
_AT_ONCE = 4
_READY_S = 120
_IDLE_S = 3.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Row:
    """The figures of one API and one kind of start."""

    api: str
    kind: str
    wall_s: list[float] = field(default_factory=list)
    command_cpu_s: list[float] = field(default_factory=list)
    agent_cpu_s: list[float] = field(default_factory=list)
    private_mb: list[float] = field(default_factory=list)
    pss_mb: list[float] = field(default_factory=list)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _memory_mb(pid: int) -> tuple[float, float]:
    """The private memory of a process, and its share of everything."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8").splitlines()
    kb = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.endswith("kB")}
    return (kb["Private_Clean"] + kb["Private_Dirty"]) / 1024, kb["Pss"] / 1024


def _warm_parents(home: str) -> list[int]:
    """The warm parents of this benchmark: those with its home."""
    found = []
    for row in processes.table():
        try:
            words = Path(f"/proc/{row.pid}/cmdline").read_bytes()
            env = Path(f"/proc/{row.pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if starter.FOLDER.as_posix().encode() in words and f"HOME={home}".encode() in env:
            found.append(row.pid)
    return found


def _end_warm_parents(home: str) -> None:
    for pid in _warm_parents(home):
        os.kill(pid, signal.SIGTERM)


def _bullpen(env: Mapping[str, str], *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "bullpen", "-t", _TEAM, "--json", *words],
        env=env,
        capture_output=True,
        text=True,
        timeout=2 * _READY_S,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"bullpen {' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


def _spawn(env: Mapping[str, str], row: Row, name: str, folder: Path) -> None:
    before, begun = os.times(), time.perf_counter()
    model = _MODELS[row.api]
    words = ("spawn", name, "Wait for mail.", "--driver", "native", "--model", model)
    more = ("--backend", "subprocess", "--no-claim", "--cwd", str(folder), "--wait", str(_READY_S))
    told = json.loads(_bullpen(env, *words, *more))
    wall_s, after = time.perf_counter() - begun, os.times()
    pid = told["place"]["pid"]
    row.agent_cpu_s.append(_cpu_s(pid))
    row.wall_s.append(wall_s)
    # Without what runs on: a warm parent that was started is not waited for.
    used = after.children_user + after.children_system
    row.command_cpu_s.append(used - before.children_user - before.children_system)
    time.sleep(_IDLE_S)
    private, pss = _memory_mb(pid)
    row.private_mb.append(private)
    row.pss_mb.append(pss)


@contextmanager
def _place(options: argparse.Namespace) -> Iterator[tuple[Path, dict[str, str]]]:
    options.dir.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="native-spawn-", dir=options.dir))
    with MockModels(lambda _: Reply("I wait.")) as models:
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), "BULLPEN_HOME": f"{folder}/home"}
        try:
            yield folder, {**env, **models.env}
        finally:
            _end_warm_parents(str(folder))
            shutil.rmtree(folder)


def _measure_one_by_one(options: argparse.Namespace) -> list[Row]:
    """Each kind of start, one after the other in every round."""
    rows = [Row(api, kind) for api in _MODELS for kind in _KINDS]
    with _place(options) as (folder, env):
        _bullpen(env, "team", "create", _TEAM)
        for turn in range(options.rounds):
            try:
                for row in rows:
                    if row.kind == "first":
                        _end_warm_parents(str(folder))
                    how = {starter.WARM_START: starter.OFF} if row.kind == "cold" else {}
                    _spawn({**env, **how}, row, f"{row.kind}-{row.api}-{turn}", folder)
            finally:
                _bullpen(env, "down")
    return rows


async def _many(folder: Path, env: Mapping[str, str], names: Sequence[str]) -> float:
    """The seconds until all are ready, from a machine without a warm parent."""
    settings = settings_from(env, home=folder / "home", team=_TEAM)
    async with App(settings, env) as app:
        await app.teams.create(_TEAM, cwd=str(folder))
        team, supervisor = app.teams.open(_TEAM), app.supervisor(_TEAM)
        many = 10 * len(names)
        await team.agents.limit(by=LEAD, agents=many, spawns_per_minute=many, turns=many)
        request = SpawnRequest(
            driver="native",
            model=_MODELS["anthropic"],
            backend="subprocess",
            cwd=str(folder),
            prompt="Wait for mail.",
            claims=False,
        )
        spec = await app.resolve(request)
        turn = anyio.Semaphore(_AT_ONCE)

        async def one(name: str) -> None:
            async with turn:
                await supervisor.spawn(name, spec, by=LEAD, ready_s=_READY_S)

        try:
            begun = time.perf_counter()
            async with anyio.create_task_group() as group:
                for name in names:
                    group.start_soon(one, name)
            return time.perf_counter() - begun
        finally:
            await supervisor.stop_all(by=LEAD, grace_s=1)


def _measure_many(options: argparse.Namespace) -> float:
    with _place(options) as (folder, env):
        names = [f"agent-{number}" for number in range(options.agents)]
        return anyio.run(_many, folder, env, names)


def _shown(values: Sequence[float]) -> str:
    if not values:
        return "-"
    return f"{statistics.median(values):.2f} [{min(values):.2f}-{max(values):.2f}]"


def _table(rows: Sequence[Row]) -> str:
    names = ("wall_s", "command_cpu_s", "agent_cpu_s", "private_mb", "pss_mb")
    lines = [f"| api | start | n | {' | '.join(names)} |", "| --- " * (3 + len(names)) + "|"]
    for row in rows:
        figures = asdict(row)
        cells = [_shown(figures[name]) for name in names]
        lines.append(f"| {row.api} | {row.kind} | {len(row.wall_s)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Parse the command line and run the benchmark."""
    parser = argparse.ArgumentParser(description="Measure what starting native agents costs.")
    parser.add_argument("--rounds", type=int, default=5, help="starts of each kind and API")
    parser.add_argument("--agents", type=int, default=20, help="agents that are started at once")
    parser.add_argument("--dir", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    if options.rounds:
        print(_table(_measure_one_by_one(options)))
    if options.agents:
        seconds = _measure_many(options)
        print(f"\n{options.agents} agents ready in {seconds:.1f} s, {_AT_ONCE} at a time.")
    loads = load, os.getloadavg()[0]
    print(f"\nLoad average before and after: {loads[0]:.2f}, {loads[1]:.2f}.")
    if max(loads) > LOAD_MAX:
        print(f"The machine was busy (load over {LOAD_MAX:g}): do not judge the wall times.")


if __name__ == "__main__":
    main()
