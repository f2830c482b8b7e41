"""A home with one team, and a project that is a repository."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.git.repositories import commit, git, only_these_settings
from support.offices import Place, opened


@pytest.fixture(autouse=True)
def _settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_these_settings(monkeypatch, tmp_path)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """A home with one team, whose project is a repository; every process is gone at the end."""
    async with opened(tmp_path) as found:
        git(found.project, "init", "--quiet", "--initial-branch=main")
        commit(found.project, {"a.txt": "one\n", "sub/b.txt": "b\n"})
        yield found
