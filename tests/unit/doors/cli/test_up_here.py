"""`bullpen up` without a file takes the team file of the directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_up_takes_the_team_file_of_the_directory(run: Callable[..., Any], here: Path) -> None:
    (here / "TEAM.toml").write_text("[team]\nnamee = 'x'\n", "utf-8")
    result = run("up", "--dry-run")
    assert result.exit_code != 0
    assert "TEAM.toml:2" in result.stderr


def test_up_without_a_team_file_says_what_to_do_first(run: Callable[..., Any]) -> None:
    result = run("up")
    assert result.exit_code == 3
    assert "There is no TEAM.toml in this directory." in result.stderr
    assert "hint: Create one: bullpen init." in result.stderr
