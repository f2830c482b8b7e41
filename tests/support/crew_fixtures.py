"""Fixtures of tests with agents; a folder's conftest imports what it needs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from bullpen.store.files.store import FileStore
from bullpen.team.team import Teams

from .crews import Crew, new_team
from .offices import Place, opened


@pytest.fixture
async def crew(tmp_path: Path) -> AsyncIterator[Crew]:
    """Agents on a team in files; they are gone when the test is over."""
    folder = tmp_path / "agents"
    folder.mkdir()
    async with Teams(FileStore(tmp_path / "home", fsync=False)) as teams:
        team = await new_team(teams)
        async with anyio.create_task_group() as group:
            yield Crew(team, folder, group)
            group.cancel_scope.cancel()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """A home with one team, and a user who has nothing; every process is gone at the end."""
    async with opened(tmp_path) as found:
        yield found
