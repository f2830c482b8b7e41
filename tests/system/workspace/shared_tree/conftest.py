"""Two agents in one real repository, each with its real gate."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.crew_fixtures import place

from .shared_stage import Stage, make_template, stage_in

__all__ = ["place"]


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository as all tests here begin with, to be copied."""
    return make_template(tmp_path_factory.mktemp("template") / "project")


@pytest.fixture
async def stage(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stage]:
    """Ann and bob in a copy of that repository, and cid in a tree of her own."""
    async with stage_in(tmp_path, template, monkeypatch) as found:
        yield found
