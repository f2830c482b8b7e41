"""Measure what starting a native agent costs, without and with a warm parent.

    python benchmarks/native_spawn.py --rounds 5

The agents are real, on our own model server, and `bullpen spawn` starts them: *cold*, without a
warm parent; *first*, which starts one; and *warm*, forked from it. Wall time is from the start of
the command until it reports that the agent is ready. Processor time is user and system time, of the
command and of the agent's process until it is ready. Memory is that of an idle agent after its
first turn: private memory is what it shares with nobody. `agents.py` starts many at once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import machine
from bullpen.agents.backends.warm_start import starter
from bullpen.agents.system import processes
from bullpen.testing.models import MockModels, Reply
from bullpen.testing.models.server import Brain
from figures import NO_GOAL, Figure, Row, below, figure_of
from report import options_parser, report, scratch

_TEAM = "bench"
MODELS = {"anthropic": "anthropic:claude-sonnet-5-5", "openai-chat": "openai-chat:gpt-6.1-sol"}
_APIS = {"anthropic": "Anthropic", "openai-chat": "Chat Completions"}
_KINDS = ("cold", "first", "warm")
_READY_S = 120
_TURN_S, _IDLE_S = 1.0, 2.0
_GOALS = {
    ("cold", "ready"): 3.0,
    ("warm", "ready"): 1.0,
    ("warm", "processor time in all"): 0.3,
    ("warm", "private memory when idle"): 35.0,
}


@dataclass(slots=True)
class Start:
    """The figures of one API and one kind of start."""

    api: str
    kind: str
    ready_s: list[float] = field(default_factory=list)
    agent_s: list[float] = field(default_factory=list)
    command_s: list[float] = field(default_factory=list)
    private_mb: list[float] = field(default_factory=list)
    shared_mb: list[float] = field(default_factory=list)

    @property
    def figures(self) -> dict[str, Figure]:
        """What was measured, in words."""
        return {
            "ready": figure_of(self.ready_s, "s"),
            "processor time in all": figure_of(
                list(map(sum, zip(self.agent_s, self.command_s, strict=True))), "s"
            ),
            "processor time of the agent": figure_of(self.agent_s, "s"),
            "processor time of the command": figure_of(self.command_s, "s"),
            "private memory when idle": figure_of(self.private_mb, "MB"),
            "its share of all memory": figure_of(self.shared_mb, "MB"),
        }

    def rows(self, load: float) -> Iterator[Row]:
        """The rows of this kind of start."""
        for number, (what, figure) in enumerate(self.figures.items(), start=1):
            limit = _GOALS.get((self.kind, what))
            goal = NO_GOAL if limit is None else below(figure, limit)
            work = f"native agent, {_APIS[self.api]}, {self.kind}: {what}"
            yield Row(number, work, figure, goal, load=load)


def _end_warm_parents(home: str) -> None:
    """Stop the warm parents of this benchmark: those with its home."""
    for row in processes.table():
        try:
            words = Path(f"/proc/{row.pid}/cmdline").read_bytes()
            env = Path(f"/proc/{row.pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if starter.FOLDER.as_posix().encode() in words and f"HOME={home}".encode() in env:
            os.kill(row.pid, signal.SIGTERM)


@contextmanager
def native_home(folder: Path, brain: Brain) -> Iterator[dict[str, str]]:
    """The environment of native agents with a model server; their warm parent ends with it."""
    with MockModels(brain) as models:
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), "BULLPEN_HOME": f"{folder}/home"}
        try:
            yield {**env, **models.env}
        finally:
            _end_warm_parents(str(folder))


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


def _spawn(env: Mapping[str, str], start: Start, name: str, folder: Path) -> int:
    """Start an agent and measure that; returns its process."""
    before, begun = os.times(), time.perf_counter()
    words = ("spawn", name, "Wait for mail.", "--driver", "native", "--model", MODELS[start.api])
    more = ("--backend", "subprocess", "--no-claim", "--cwd", str(folder), "--wait", str(_READY_S))
    told = json.loads(_bullpen(env, *words, *more))
    start.ready_s.append(time.perf_counter() - begun)
    after, pid = os.times(), told["place"]["pid"]
    start.agent_s.append(machine.processor_s([pid]))
    # Without what runs on: a warm parent that was started is not waited for.
    used = after.children_user + after.children_system
    start.command_s.append(used - before.children_user - before.children_system)
    return int(pid)


def measure(folder: Path, rounds: int) -> list[Row]:
    """Each kind of start, one after the other in every round."""
    load = machine.load()
    starts = [Start(api, kind) for api in MODELS for kind in _KINDS]
    with native_home(folder, lambda _: Reply("I wait.")) as env:
        _bullpen(env, "team", "create", _TEAM)
        for turn in range(rounds):
            try:
                pids = []
                for start in starts:
                    if start.kind == "first":
                        _end_warm_parents(str(folder))
                    how = {starter.WARM_START: starter.OFF} if start.kind == "cold" else {}
                    name = f"{start.kind}-{start.api}-{turn}"
                    pids.append(_spawn({**env, **how}, start, name, folder))
                    # Its first turn must not slow down the next start.
                    time.sleep(_TURN_S)
                time.sleep(_IDLE_S)
                for start, pid in zip(starts, pids, strict=True):
                    private, shared = machine.memory_mb(pid)
                    start.private_mb.append(private)
                    start.shared_mb.append(shared)
            finally:
                _bullpen(env, "down")
    return [row for start in starts for row in start.rows(load)]


def main() -> None:
    """Parse the command line and run the benchmark."""
    parser = options_parser("Measure what starting a native agent costs.")
    parser.add_argument("--rounds", type=int, default=5, help="starts of each kind and API")
    options = parser.parse_args()
    with scratch(options, "native-spawn") as folder:
        rows = measure(folder, options.rounds)
    report(options, rows)


if __name__ == "__main__":
    main()
