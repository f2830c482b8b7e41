"""Fixtures of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.doors.acp_editor import Editor


@pytest.fixture
def editor(tmp_path: Path) -> Editor:
    """An editor whose agent is a team that a script plays."""
    return Editor(tmp_path)
