"""A desk for a Claude Code that only asks its user to log in."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Teams
from bullpen.testing.desks import RecordingDesk


@pytest.fixture
async def desk(tmp_path: Path) -> RecordingDesk:
    teams = Teams(MemoryStore())
    await teams.create("alpha")
    team = teams.open("alpha")
    await team.roster.join("ann", by=LEAD)
    folder = tmp_path / "ann"
    folder.mkdir()
    spec = AgentSpec.new(
        driver="claude-code",
        backend="in-process",
        cwd=str(tmp_path),
        options={"command": ["sh", "-c", "echo Log in first; sleep 600"]},
    )
    return RecordingDesk(team, "ann", folder, spec, env={"PATH": "/usr/bin:/bin"})
