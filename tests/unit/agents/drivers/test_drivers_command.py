"""R-12.3: every driver says what it can do, and `bullpen drivers` says it as it is declared."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bullpen.agents.drivers.registry import DRIVERS, capabilities_of
from bullpen.agents.system.vendors.acp_presets import PRESETS
from bullpen.doors.cli.main import app
from bullpen.doors.cli.output.page import as_json

Run = Callable[..., Result]


@pytest.fixture
def run(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A command on a machine that has Codex and Goose."""
    for path in programs.iterdir():
        if path.name not in ("codex-acp", "goose"):
            path.unlink()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("BULLPEN_HOME", str(tmp_path / "home"))
    return lambda *words: CliRunner().invoke(app, list(words))


def test_what_is_listed_is_what_is_declared(run: Run, programs: Path) -> None:
    """R-12.3: what a driver cannot do it declares."""
    rows: list[dict[str, Any]] = json.loads(run("drivers", "--json").stdout)["drivers"]
    assert [row["name"] for row in rows] == list(DRIVERS)
    for row in rows:
        assert row["capabilities"] == as_json(capabilities_of(row["name"])), row["name"]
    for name, preset in PRESETS.items():
        row = next(row for row in rows if row["name"] == name)
        assert row["command"] == list(preset.command)
        assert row["observed"] == preset.observed
        there = name in ("codex", "goose")
        assert row["path"] == (str(programs / preset.command[0]) if there else None)
        assert (row["missing"] is None) == there
        assert there or preset.install in row["missing"]


def test_the_table_shows_all_of_them_and_how_to_get_what_is_missing(
    run: Run, programs: Path
) -> None:
    text = run("drivers").stdout
    for name in DRIVERS:
        assert re.search(rf"^{name} ", text, re.MULTILINE), name
    assert str(programs / "codex-acp") in text
    assert PRESETS["gemini"].install in text


def test_it_needs_no_team(run: Run) -> None:
    assert run("drivers").exit_code == 0


def test_a_command_that_cannot_be_parted_is_refused(run: Run) -> None:
    said = run("spawn", "alice", "--driver", "acp", "--command", "agent 'unclosed")
    assert said.exit_code == 2
    assert "is not a command" in said.stderr
