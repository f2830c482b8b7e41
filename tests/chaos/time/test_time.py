"""`bullpen run` and `bullpen up` while the machine sleeps, processes are stopped, the clock is set.

The result is the same as without: nothing is lost, nothing is done twice. A sleep is all processes
stopped at once and a wall clock that shows a later time when they go on, for the clock for
durations stands still while a machine sleeps. Where one process is stopped, leases are ten times
shorter, and three minutes are 18 seconds. BULLPEN_NIGHTLY=1 also stops each process for three real
minutes, with real leases.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .stage import SHORTER, Result, Stage

pytestmark = pytest.mark.anyio

HOUR_S = 3600
MINUTES_3_S = 180.0
IN_WORK_S = 1.5
"""How long after a task was begun the fault comes."""

Fault = Callable[[Stage], None]

FAULTS: dict[str, Fault] = {
    "a sleep of 3 minutes": lambda stage: stage.sleep(180),
    "a sleep of 8 hours": lambda stage: stage.sleep(8 * HOUR_S),
    "a clock set an hour forward": lambda stage: stage.set_clock(HOUR_S),
    "a clock set an hour back": lambda stage: stage.set_clock(-HOUR_S),
}


@pytest.fixture
def stages(tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    made: list[Stage] = []

    def stage(**how: float) -> Stage:
        folder = tmp_path / f"stage-{len(made)}"
        folder.mkdir()
        made.append(Stage(folder, **how))
        return made[-1]

    yield stage
    for each in made:
        each.close()


def begin(stage: Stage, command: str, backend: str) -> None:
    start = stage.start_run if command == "run" else stage.start_up
    start(backend=backend)
    stage.until_begun()
    time.sleep(IN_WORK_S)


def check(found: Result, command: str) -> None:
    """Say what has to be true, with or without a fault."""
    subjects = ["Count"] if command == "run" else ["Task 1", "Task 2", "Task 3"]
    numbers = [str(number) for number, _ in enumerate(subjects, 1)]
    members = ["ann", "bob", *(["team-lead"] if command == "run" else [])]
    assert found == Result(
        code=0,
        tasks=[(subject, "completed", 1) for subject in subjects],
        begun=numbers,
        done=numbers,
        launches=dict.fromkeys(members, 1),
        claims=len(subjects),
        reports=len(subjects),
        lost=[],
        output=found.output,
    ), found.output


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("command", "backend"),
    [("run", "in-process"), ("run", "subprocess"), ("up", "in-process"), ("up", "subprocess")],
)
async def test_the_result_is_the_same_as_without(
    stages: Callable[..., Stage], command: str, backend: str, fault: str
) -> None:
    stage = stages()
    begin(stage, command, backend)
    FAULTS[fault](stage)
    check(await stage.result(), command)


WHO = [("run", "watcher"), ("run", "team-lead"), ("run", "worker"), ("run", "idle")]
WHO += [("up", "watcher"), ("up", "ann"), ("up", "bob")]


def stopped(stage: Stage, who: str) -> int:
    """The process to stop; whoever has the task, or has none, is known only now."""
    pythons = stage.pythons()
    if who in ("worker", "idle"):
        working = stage.worker()
        who = working if who == "worker" else next(n for n in ("ann", "bob") if n != working)
    return pythons[who]


@pytest.mark.parametrize(("command", "who"), WHO)
async def test_a_process_that_is_stopped_loses_nothing(
    stages: Callable[..., Stage], command: str, who: str
) -> None:
    stage = stages(leases=SHORTER)
    begin(stage, command, "subprocess")
    stage.stop(stopped(stage, who), MINUTES_3_S / SHORTER)
    check(await stage.result(), command)


@pytest.mark.nightly
@pytest.mark.parametrize(("command", "who"), WHO)
async def test_a_process_that_is_stopped_for_three_minutes_loses_nothing(
    stages: Callable[..., Stage], command: str, who: str
) -> None:
    stage = stages()
    begin(stage, command, "subprocess")
    stage.stop(stopped(stage, who), MINUTES_3_S)
    check(await stage.result(), command)


@pytest.mark.nightly
@pytest.mark.parametrize(("command", "backend"), [("run", "in-process"), ("up", "subprocess")])
async def test_all_processes_stopped_for_three_minutes_lose_nothing(
    stages: Callable[..., Stage], command: str, backend: str
) -> None:
    stage = stages()
    begin(stage, command, backend)
    stage.sleep(180, really_s=MINUTES_3_S)
    check(await stage.result(), command)
