"""Desks of real members of a real team in files, and calling tools the way drivers do."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.agents.contracts.backend import NONCE
from bullpen.agents.tools.jobs import end_jobs
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.store.files.store import FileStore
from bullpen.team.team import Team, Teams
from bullpen.testing.desks import RecordingDesk

WAIT_S = 30.0
"""How long a test waits at most for what should take a moment, on a machine that is busy."""


@dataclass
class Bench:
    """An agent with its tools and a directory to work in."""

    desk: RecordingDesk
    cwd: Path

    async def call(self, name: str, /, **given: Any) -> tuple[str, bool]:
        return await call(toolbox(self.desk), name, given, self.desk)

    async def ok(self, name: str, /, **given: Any) -> str:
        text, failed = await self.call(name, **given)
        assert not failed, text
        return text

    async def refused(self, name: str, /, **given: Any) -> str:
        text, failed = await self.call(name, **given)
        assert failed, text
        return text

    @staticmethod
    def runs(pid: int) -> bool:
        """Whether a process runs; one that has ended and was not waited for does not."""
        shown = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        return bool(shown.stdout.strip()) and not shown.stdout.strip().startswith("Z")

    @staticmethod
    async def until(holds: Callable[[], bool]) -> None:
        """Wait until something holds, and fail after a time that is long enough."""
        with anyio.fail_after(WAIT_S):
            while not holds():  # noqa: ASYNC110 - the outside world has no event
                await anyio.sleep(0.02)

    async def pid_in(self, name: str) -> int:
        """The number that a command writes into a file, once it is there."""
        path = self.cwd / name
        await self.until(lambda: path.exists() and path.read_text().endswith("\n"))
        return int(path.read_text())


MakeBench = Callable[..., Bench]


@pytest.fixture
async def team(tmp_path: Path) -> Team:
    teams = Teams(FileStore(tmp_path / "home", fsync=False))
    await teams.create("crew", cwd=str(tmp_path))
    team = teams.open("crew")
    await team.roster.join("ann", by=LEAD)
    await team.roster.join("bob", by=LEAD)
    return team


@pytest.fixture
async def make_bench(team: Team, tmp_path: Path) -> AsyncIterator[MakeBench]:
    desks: list[RecordingDesk] = []

    def make(
        agent: str = "ann", *, colleagues: Any = None, driver: str = "scripted", **spec: Any
    ) -> Bench:
        cwd = tmp_path.resolve() / "tree"
        cwd.mkdir(exist_ok=True)
        desk = RecordingDesk(
            team=team,
            agent=agent,
            folder=tmp_path / "agents" / agent,
            spec=AgentSpec.new(driver=driver, backend="in-process", cwd=str(cwd), **spec),
            env={"PATH": os.environ["PATH"], NONCE: "nonce-of-this-launch", "COLOUR": "green"},
            colleagues=colleagues,
        )
        desks.append(desk)
        return Bench(desk, cwd)

    yield make
    for desk in desks:
        await end_jobs(desk)


@pytest.fixture
def ann(make_bench: MakeBench) -> Bench:
    return make_bench("ann")


@pytest.fixture
def bob(make_bench: MakeBench) -> Bench:
    return make_bench("bob")


@pytest.fixture
def lead(make_bench: MakeBench) -> Bench:
    return make_bench(LEAD)
