"""`bullpen join` and `bullpen bridge` at the command line, without a session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bullpen.doors.cli.main import app


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without any session."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("BULLPEN_HOME", str(tmp_path / "bullpen"))
    return tmp_path


def test_join_wants_to_know_whose_session_it_is() -> None:
    result = CliRunner().invoke(app, ["join", "bob"])
    assert result.exit_code == 2
    assert "--claude" in result.stderr


def test_join_without_a_session_says_where_it_looked(home: Path) -> None:
    result = CliRunner().invoke(app, ["join", "bob", "--claude", "--driver", "scripted"])
    assert result.exit_code == 3
    assert str(home / "claude") in result.stderr.replace("\n", "")
    assert not (home / "claude").exists()


def test_a_home_that_is_named_goes_before_the_variable(home: Path) -> None:
    words = ["join", "bob", "--claude", "--driver", "scripted", "--home", str(home / "other")]
    result = CliRunner().invoke(app, words)
    assert str(home / "other") in result.stderr.replace("\n", "")


def test_a_bridge_for_nobody_is_refused() -> None:
    result = CliRunner().invoke(app, ["bridge", "--model", "x"])
    assert result.exit_code == 2
    assert "CLAUDE_CODE_TEAMMATE_COMMAND" in result.stderr


def test_the_program_of_one_word_takes_the_flags_of_claude_code(home: Path) -> None:
    words = ["--agent-id", "alice@gone", "--hologram", "on", "--plan-mode-required"]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from bullpen.doors.cli.main import bridge_main; bridge_main()",
            *words,
        ],
        env={**os.environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert "ignored unknown option --hologram on" in done.stderr
    assert "There is no team 'gone'" in done.stderr
