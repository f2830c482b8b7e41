"""Every test of the queue works on a repository and a team of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.store.memory import MemoryStore

from .repositories import only_these_settings
from .yard import Yard


@pytest.fixture(autouse=True)
def _settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_these_settings(monkeypatch, tmp_path)


@pytest.fixture
async def yard(tmp_path: Path) -> Yard:
    """A team of ann and bob on a small repository."""
    yard = await Yard.make(tmp_path, MemoryStore())
    await yard.join("ann", "bob")
    return yard
