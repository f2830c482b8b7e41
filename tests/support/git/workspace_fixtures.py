"""Every test of trees works on repositories of its own, with settings of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.workspace.trees.slots import give_back

from .repositories import make_repository, only_these_settings


@pytest.fixture
def _ports_are_given_back(tmp_path: Path) -> Iterator[None]:
    yield
    slots = Path(f"/tmp/bullpen-{os.getuid()}/slots.json")
    rows = json.loads(slots.read_bytes()) if slots.exists() else {}
    for row in rows.values():
        if str(tmp_path) in row["key"]:
            give_back(row["key"])


@pytest.fixture(autouse=True)
def _settings(_ports_are_given_back: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_these_settings(monkeypatch, tmp_path)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The user's repository: two files, one commit, clean."""
    return make_repository(tmp_path / "project")
