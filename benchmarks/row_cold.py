"""Row 9: the cost of a new process: listing many tasks, the import."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from counts import Counts
from figures import NO_GOAL, Figure, Goal, Row, below, milliseconds
from scenery import TEAM, make_team

_LIST_OURS = """
import sys, time
import anyio
from pathlib import Path
from bullpen.store.files.store import FileStore
async def read():
    begin = time.perf_counter()
    state = await FileStore(Path(sys.argv[1])).read(sys.argv[2])
    return time.perf_counter() - begin, len(state.tasks)
print(*anyio.run(read))
"""
_LIST_PEER = """
import json, os, sys, time
folder = os.path.join(sys.argv[1], "tasks", sys.argv[2])
begin, tasks = time.perf_counter(), []
for name in os.listdir(folder):
    if name.endswith(".json"):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            tasks.append(json.loads(file.read()))
print(time.perf_counter() - begin, len(tasks))
"""
_LIST_BARE = """
import os, sys, time
folder = os.path.join(sys.argv[1], "tasks", sys.argv[2])
begin, count = time.perf_counter(), 0
for name in os.listdir(folder):
    if name.endswith(".json"):
        fd = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.read(fd, 1 << 16)
        os.close(fd)
        count += 1
print(time.perf_counter() - begin, count)
"""
_TIMED = "import time; begin = time.perf_counter(); {}; print(time.perf_counter() - begin, 0)"


async def rows(folder: Path, counts: Counts) -> list[Row]:
    """All measurements in fresh interpreters with compiled bytecode."""
    home = folder / "home"
    store = await make_team(home)
    await store.aclose()
    _write_tasks(home / "tasks" / TEAM, counts.listed_tasks)
    runs = _Runs(folder / "bytecode", counts.starts)
    return [*_list_rows(runs, home, counts), *_start_rows(runs)]


def _write_tasks(folder: Path, count: int) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(1, count + 1):
        task = {
            "id": str(number),
            "subject": f"Task {number}: mend the parser",
            "description": "Look at the cases that fail, and make them pass. " * 4,
            "status": ("pending", "in_progress", "completed")[number % 3],
            "blocks": [],
            "blockedBy": [str(number - 1)] if number % 2 == 0 else [],
        }
        (folder / f"{number}.json").write_text(json.dumps(task, indent=2), encoding="utf-8")


class _Runs:
    """Runs commands in new processes and records the time they report and the total time."""

    def __init__(self, bytecode: Path, times: int) -> None:
        self._times = times
        hidden = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONPROFILEIMPORTTIME")
        kept = {key: value for key, value in os.environ.items() if key not in hidden}
        # A separate bytecode cache: each import is compiled once and then found compiled.
        self._environment = {**kept, "PYTHONPYCACHEPREFIX": str(bytecode)}

    def whole(self, *command: str) -> Figure:
        """The time of the whole process."""
        return self._figure([self._run(command)[0] for _ in self._warm(command)])

    def inside(self, *command: str, answer: int = 0) -> tuple[Figure, Figure]:
        """The time that the process reports, and that of the whole process."""
        inner, outer = [], []
        for _ in self._warm(command):
            took, said = self._run(command)
            seconds, count = said.split()
            if int(count) != answer:
                raise RuntimeError(f"{count} were found, not {answer}.")
            inner.append(float(seconds))
            outer.append(took)
        return self._figure(inner), self._figure(outer)

    def _warm(self, command: tuple[str, ...]) -> range:
        self._run(command)
        return range(self._times)

    def _run(self, command: tuple[str, ...]) -> tuple[float, str]:
        begin = time.perf_counter()
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, check=True, timeout=60
        )
        return time.perf_counter() - begin, done.stdout

    @staticmethod
    def _figure(seconds: list[float]) -> Figure:
        return milliseconds(seconds)


def _list_rows(runs: _Runs, home: Path, counts: Counts) -> list[Row]:
    count, where = counts.listed_tasks, (str(home), TEAM)
    ours, peer, bare = (
        runs.inside(sys.executable, "-c", script, *where, answer=count)
        for script in (_LIST_OURS, _LIST_PEER, _LIST_BARE)
    )
    work = f"list of {count:,} tasks in a new process"
    command = (*_bullpen(), "task", "list", "--home", str(home), "--team", TEAM, "--json")
    return [
        Row(9, f"{work}: the read", ours[0], below(ours[0], 300), (peer[0], None, bare[0])),
        Row(
            9, f"{work}: the whole process", ours[1], below(ours[1], 300), (peer[1], None, bare[1])
        ),
        Row(9, f"{work}: `bullpen task list --json`", runs.whole(*command), NO_GOAL),
    ]


def _start_rows(runs: _Runs) -> list[Row]:
    nothing = runs.whole(sys.executable, "-c", "pass")
    imported, _ = runs.inside(sys.executable, "-c", _TIMED.format("import bullpen"))
    used, _ = runs.inside(
        sys.executable, "-c", _TIMED.format("from bullpen import Team, open_teams")
    )

    def row(work: str, ours: Figure, goal: Goal) -> Row:
        alone = Figure(nothing.value, "ms", "interpreter alone")
        return Row(9, work, ours, goal, (None, None, alone))

    return [
        row("`import bullpen`, the statement", imported, below(imported, 100)),
        row("`from bullpen import Team, open_teams`, the statement", used, NO_GOAL),
    ]


def _bullpen() -> tuple[str, ...]:
    script = Path(sys.executable).parent / "bullpen"
    found = str(script) if script.exists() else shutil.which("bullpen")
    return (found,) if found else (sys.executable, "-m", "bullpen")
