"""An agent whose commands are closed in: a project, a home with secrets, and the teams."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bullpen.agents.tools.jobs import end_jobs
from bullpen.agents.tools.toolbox import call, toolbox
from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.policy import Policy, Sandbox
from bullpen.sandbox.command import check_sandbox
from bullpen.store.files.store import FileStore
from bullpen.team.team import Teams
from bullpen.testing.desks import RecordingDesk


@dataclass
class Closed:
    """An agent in a sandbox, and what lies around it."""

    desk: RecordingDesk
    project: Path
    home: Path
    secret: Path
    outside: Path

    async def call(self, command: str, **given: Any) -> tuple[str, bool]:
        return await call(toolbox(self.desk), "Bash", {"command": command, **given}, self.desk)

    async def ok(self, command: str, **given: Any) -> str:
        text, failed = await self.call(command, **given)
        assert not failed, text
        return text

    async def fails(self, command: str, **given: Any) -> str:
        text, failed = await self.call(command, **given)
        assert failed, text
        return text

    def git(self, *words: str, cwd: Path | None = None) -> str:
        """Git outside of the sandbox."""
        done = subprocess.run(
            ["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org", *words],
            cwd=cwd or self.project,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()


@pytest.fixture(autouse=True, scope="session")
def sandbox_to_be_had() -> None:
    """Without one there is nothing to test; where changes are judged, that is an error."""
    try:
        check_sandbox()
    except Unavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture
def outside() -> Iterator[Path]:
    """A directory that is neither in a home nor in /tmp: inside it is there, but read-only."""
    folder = Path(__file__).parents[4] / ".pytest_cache" / f"outside-{secrets.token_hex(4)}"
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder)


MakeClosed = Callable[..., Closed]


@pytest.fixture
async def make_closed(tmp_path: Path, outside: Path) -> AsyncIterator[MakeClosed]:
    teams_home = tmp_path / "teams"
    teams = Teams(FileStore(teams_home, fsync=False))
    await teams.create("crew", cwd=str(tmp_path))
    team = teams.open("crew")
    await team.roster.join("ann", by=LEAD)
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    secret = home / ".ssh" / "id"
    secret.write_text(f"hidden-{secrets.token_hex(8)}\n")
    project = tmp_path / "project"
    project.mkdir()
    desks: list[RecordingDesk] = []

    def make(
        *, sandbox: Sandbox | None = None, env: dict[str, str] | None = None, **fields: Any
    ) -> Closed:
        rights = Policy.new(
            sandbox=(sandbox or Sandbox.new()).raw, directories=fields.pop("directories", [])
        )
        fields = {"cwd": str(project), **fields}
        spec = AgentSpec.new(
            driver="scripted",
            backend="in-process",
            mode="bypassPermissions",
            policy=rights.raw,
            **fields,
        )
        around = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "BULLPEN_HOME": str(teams_home),
            **(env or {}),
        }
        desk = RecordingDesk(team, "ann", tmp_path / "folder", spec, env=around)
        desks.append(desk)
        return Closed(desk, project, home, secret, outside)

    yield make
    for desk in desks:
        await end_jobs(desk)


@pytest.fixture
def closed(make_closed: MakeClosed) -> Closed:
    return make_closed()
