"""How long a start may take, what is said meanwhile, and what is said when it was too long."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from bullpen.agents.contracts.backend import Launch
from bullpen.agents.drivers.registry import loading_words
from bullpen.agents.supervisor.admission import RoomWait
from bullpen.agents.supervisor.start_wait import StartDeadline
from bullpen.agents.supervisor.supervisor import Supervisor
from bullpen.agents.system import processes
from bullpen.agents.system.footprint import load_factor
from bullpen.agents.system.vendors.programs import READY_S
from bullpen.errors import StartFailed
from bullpen.protocol.agent import AgentSpec, ProcessRecord
from bullpen.protocol.clock import now_ms
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams


class Clock:
    """A clock and a load that a test sets."""

    now = 100.0
    load = 1.0

    def deadline(self, seconds: float | None = None) -> StartDeadline:
        return StartDeadline(seconds, now=lambda: self.now, load=lambda: self.load)


def test_a_start_has_a_fixed_time_on_a_quiet_machine() -> None:
    clock = Clock()
    deadline = clock.deadline()
    clock.now += READY_S - 1
    assert not deadline.has_passed
    clock.now += 1
    assert deadline.has_passed
    assert deadline.given_s == READY_S


def test_the_time_grows_with_the_load_while_it_starts_and_does_not_shrink_again() -> None:
    clock = Clock()
    deadline = clock.deadline()
    clock.now += READY_S - 1
    clock.load = 3.0
    assert deadline.left_s == 2 * READY_S + 1
    clock.load = 1.0
    assert deadline.left_s == 2 * READY_S + 1
    assert deadline.given_s == 3 * READY_S


def test_what_is_no_part_of_the_start_does_not_count() -> None:
    clock = Clock()
    deadline = clock.deadline()
    clock.now += READY_S
    deadline.put_off(30.0)
    assert deadline.left_s == 30.0
    assert deadline.given_s == READY_S


def test_a_time_that_somebody_asked_for_is_kept() -> None:
    clock = Clock()
    clock.load = 5.0
    deadline = clock.deadline(10.0)
    clock.now += 10
    assert deadline.has_passed


@pytest.mark.parametrize(("load", "factor"), [(0.0, 1.0), (4.0, 1.0), (12.0, 3.0), (400.0, 5.0)])
def test_the_factor_is_the_load_for_each_processor(
    monkeypatch: pytest.MonkeyPatch, load: float, factor: float
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    assert load_factor() == factor


def test_without_a_load_average_nothing_is_stretched(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> tuple[float, float, float]:
        raise OSError

    monkeypatch.setattr(os, "getloadavg", fails)
    assert load_factor() == 1.0


def test_what_loads_is_named_for_every_kind_of_driver() -> None:
    assert loading_words("native") == "loading model client"
    assert loading_words("codex") == "starting codex"
    assert loading_words("scripted") == "loading driver scripted"


class Slow:
    """A backend whose program says what it loads, and is ready when a test wants it."""

    name = "slow"

    def __init__(self, team: Team) -> None:
        self._team = team
        self.begun = anyio.Event()
        self.nonce = ""

    async def check(self) -> None:
        pass

    async def start(self, launch: Launch) -> ProcessRecord:
        self.nonce = launch.nonce
        _, agent = await self._team.agents.get(launch.agent)
        beat = processes.starting_beat(launch.agent, agent, "loading model client", now_ms())
        await self._team.agents.beat(beat)
        self.begun.set()
        return PLACE

    async def alive(self, place: ProcessRecord) -> bool:
        return True

    async def stop(self, place: ProcessRecord, nonce: str, *, grace_s: float) -> None:
        pass

    async def screen(self, place: ProcessRecord) -> str:
        return "Traceback\nImportError: no anthropic\n"

    def attach(self, place: ProcessRecord) -> list[str] | None:
        return None

    async def places(self) -> dict[str, ProcessRecord]:
        return {}

    async def aclose(self) -> None:
        pass


PLACE = ProcessRecord.new(
    backend="slow",
    host=processes.host_name(),
    pid=os.getpid(),
    start=processes.start_of(os.getpid()),
)
SPEC = AgentSpec.new(driver="scripted", backend="slow", cwd="/")


@pytest.fixture
async def team() -> Team:
    teams = Teams(MemoryStore())
    await teams.create("crew")
    return teams.open("crew")


@pytest.fixture
def supervisor(team: Team, tmp_path: Path) -> Callable[[Slow], Supervisor]:
    def made(backend: Slow) -> Supervisor:
        return Supervisor(
            team,
            home=tmp_path,
            backends={"slow": backend},
            environ={},
            check=lambda spec, in_money: None,
        )

    return made


async def test_whoever_waits_is_told_each_step_and_screens_show_it(
    team: Team, supervisor: Callable[[Slow], Supervisor]
) -> None:
    backend = Slow(team)
    roster = supervisor(backend)
    steps: list[tuple[str, str]] = []
    told = anyio.Event()

    def step(name: str, what: str) -> None:
        steps.append((name, what))
        if what == "loading model client":
            told.set()

    async def answer() -> None:
        await told.wait()
        (view,) = [each for each in await roster.agents() if each.name == "ann"]
        assert (view.state, view.detail) == ("starting", "loading model client")
        await team.agents.ready("ann", nonce=backend.nonce, place=PLACE)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(answer)
            await roster.spawn("ann", SPEC, by=LEAD, room=RoomWait(step=step))
    assert steps == [("ann", "starting its process"), ("ann", "loading model client")]


async def test_a_start_that_takes_too_long_names_its_last_step_and_last_words(
    team: Team, supervisor: Callable[[Slow], Supervisor]
) -> None:
    with pytest.raises(StartFailed) as error:
        await supervisor(Slow(team)).spawn("ann", SPEC, by=LEAD, ready_s=1.0)
    assert re.fullmatch(
        "'ann' could not be started: The agent was not ready in time:"
        " after 1 s it was still loading model client.",
        error.value.message,
    )
    assert error.value.screen == "Traceback\nImportError: no anthropic"
