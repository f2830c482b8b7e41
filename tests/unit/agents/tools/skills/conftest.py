"""Fixtures of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.agents.native_fixtures import spec, workplace

__all__ = ["clone", "spec", "user", "workplace"]


@pytest.fixture
def user(tmp_path: Path) -> Path:
    (tmp_path / "user").mkdir()
    return tmp_path / "user"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone that nobody trusts."""
    (tmp_path / "clone/.git").mkdir(parents=True)
    (tmp_path / "clone/src").mkdir()
    return tmp_path / "clone"
