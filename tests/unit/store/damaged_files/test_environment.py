"""Homes that are none, and no home at all: every command says so in a sentence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.fuzz.commandline import call


def environment(base: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(base / "user"), **more}


def test_an_empty_home_is_the_default_one(tmp_path: Path) -> None:
    outcome = call(["team", "create", "alpha"], environment(tmp_path, BULLPEN_HOME=""))
    assert outcome.code == 0
    assert (tmp_path / "user" / ".bullpen" / "teams" / "alpha" / "config.json").is_file()


def test_a_relative_home_lies_in_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = call(["team", "create", "alpha"], environment(tmp_path, BULLPEN_HOME="./here"))
    assert outcome.code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here"]
