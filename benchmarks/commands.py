"""Measure the commands that people and agents type all day, each as a process of its own.

    python benchmarks/commands.py [--rounds 15] [--tasks 10000] [--json FILE]

Every round runs every command once, in turn, so that all of them have the same machine. On a busy
machine the wall time is mostly waiting: compare the processor times then. `python -c pass`,
`git status` in a small repository and, if it is installed, `node -e 0` run beside them. The goals
are for the wall time.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import machine
from bullpen.app.stores import open_teams
from bullpen.team.tasks.drafts import Draft
from figures import NO_GOAL, Row, below, figure_of
from report import options_parser, report, scratch

_BATCH = 500
_PROGRAM = (sys.executable, "-c", "from bullpen.__main__ import main; main()")

COMMANDS: Mapping[str, float] = {
    "--help": 90,
    "--version": 90,
    "send team-lead hello": 150,
    "inbox": 150,
    "task add thing": 150,
    "task list": 150,
    "task claim --also": 150,
    "ps": 250,
    "team show": 250,
    "events --limit 10": 250,
}
"""The commonest commands, with the wall time in milliseconds that each may take."""

LARGE_LIST, LARGE_LIST_MS = 10_000, 300.0


@dataclass(slots=True)
class Timed:
    """What one command took, each time."""

    goal_ms: float | None = None
    wall_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    def run(self, words: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        """Run a program once, without its output. Raises if it fails."""
        sink = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
        # A process inherits the working directory.
        os.chdir(cwd)
        start = time.perf_counter()
        pid = os.posix_spawn(words[0], [*words], env, file_actions=[sink])
        _, status, used = os.wait4(pid, 0)
        self.wall_ms.append((time.perf_counter() - start) * 1000)
        self.cpu_ms.append((used.ru_utime + used.ru_stime) * 1000)
        if status:
            raise SystemExit(f"failed: {' '.join(words)}")

    def rows(self, name: str, load: float) -> Iterator[Row]:
        """The wall time, which has the goal, and the processor time."""
        wall, cpu = figure_of(self.wall_ms, "ms"), figure_of(self.cpu_ms, "ms")
        goal = NO_GOAL if self.goal_ms is None else below(wall, self.goal_ms)
        yield Row(1, f"`{name}`: wall time", wall, goal, load=load)
        yield Row(2, f"`{name}`: processor time", cpu, NO_GOAL, load=load)


def spread(values: Sequence[float]) -> str:
    """The least, the median and the most."""
    return f"{min(values):.0f} / {median(values):.0f} / {max(values):.0f}"


def _table(timed: Mapping[str, Timed], rows: Sequence[Row]) -> str:
    base = median(timed["python -c pass"].cpu_ms)
    head = ("command", "processor ms", "x python", "wall ms", "goal, wall", "verdict")
    lines = [head, ("---",) * len(head)]
    for row, (name, each) in zip(rows[::2], timed.items(), strict=True):
        times = f"{median(each.cpu_ms) / base:.1f}"
        goal = (row.goal.target, row.verdict)
        lines.append((f"`{name}`", spread(each.cpu_ms), times, spread(each.wall_ms), *goal))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


async def add_tasks(home: Path, team: str, count: int) -> None:
    """Add many tasks to a new team."""
    async with aclosing(open_teams(home=home)) as teams:
        await teams.create(team, cwd=str(home), by="team-lead")
        for first in range(0, count, _BATCH):
            drafts = [Draft(f"task {n}") for n in range(first, min(count, first + _BATCH))]
            await teams.open(team).tasks.add_many(drafts, by="team-lead")


def measured(folder: Path, rounds: int, tasks: int) -> dict[str, Timed]:
    """What each command took, by name."""
    home, project = folder / "home", folder / "project"
    project.mkdir(parents=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith("BULLPEN_")}
    env |= {"HOME": str(folder), "BULLPEN_HOME": str(home), "BULLPEN_TEAM": "alpha"}
    env["PYTHONDONTWRITEBYTECODE"] = ""
    git = shutil.which("git") or "git"
    subprocess.run([git, "init", "-q", str(project)], check=True)
    Timed().run([*_PROGRAM, "team", "create", "alpha"], env, project)
    programs: dict[str, tuple[Sequence[str], Timed]] = {
        "python -c pass": ([sys.executable, "-c", "pass"], Timed()),
        "git status": ([git, "status"], Timed()),
    }
    if node := shutil.which("node"):
        programs["node -e 0"] = ([node, "-e", "0"], Timed())
    for name, goal in COMMANDS.items():
        programs[f"bullpen {name}"] = ([*_PROGRAM, *name.split()], Timed(goal))
    if tasks:
        asyncio.run(add_tasks(home, "large", tasks))
        large = [*_PROGRAM, "task", "list", "-t", "large"]
        # The goal is for ten thousand.
        goal_ms = LARGE_LIST_MS if tasks >= LARGE_LIST else None
        programs[f"bullpen task list, {tasks:,} tasks"] = (large, Timed(goal_ms))
    # Each round claims one task.
    for _ in range(rounds + 1):
        Timed().run([*_PROGRAM, "task", "add", "to claim"], env, project)
    for words, _ in programs.values():
        Timed().run(words, env, project)
    for _ in range(rounds):
        for words, timed in programs.values():
            timed.run(words, env, project)
    return {name: timed for name, (_, timed) in programs.items()}


def main() -> None:
    """Measure, print a table, and write the figures if a file is named."""
    parser = options_parser("Measure the commands that people and agents type all day.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tasks", type=int, default=10_000)
    options = parser.parse_args()
    options.json = options.json and options.json.absolute()
    load = machine.load()
    with scratch(options, "commands") as folder:
        timed = measured(folder, options.rounds, options.tasks)
        os.chdir("/")
    rows = [row for name, each in timed.items() for row in each.rows(name, load)]
    print(f"n = {options.rounds}; least / median / most.\n")
    report(options, rows, shown=lambda rows: _table(timed, rows))


if __name__ == "__main__":
    main()
