"""A team with room for agents, on a machine that has every program, or so its PATH says."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bullpen.agents.system.vendors.programs import PROGRAMS
from support.offices import Place, opened


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A directory with a file for every program. None of them can do more than be there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for program in PROGRAMS.values():
        for name in program.command[:1]:
            path = folder / name
            path.write_text("#!/bin/sh\nexit 1\n")
            path.chmod(0o755)
    return folder


@pytest.fixture
async def place(tmp_path: Path, programs: Path) -> AsyncIterator[Place]:
    """A home with one team, and a user who has these programs and a key."""
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    key = "mock-key-of-nobody"
    async with opened(tmp_path, PATH=path, ANTHROPIC_API_KEY=key) as found:
        yield found
