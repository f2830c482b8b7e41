"""Fixtures of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.crew_fixtures import crew
from support.git.repositories import make_repository, only_these_settings

__all__ = ["checkout", "crew"]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that the author works in."""
    only_these_settings(monkeypatch, tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return make_repository(tmp_path / "project", {"sum.py": "def add(a, b): ...\n"})
