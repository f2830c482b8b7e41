"""Which commands an agent may type: those of a table, and no others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer.testing
from typer.main import get_command
from typer.testing import CliRunner

from bullpen.agents.contracts.backend import NONCE
from bullpen.doors.cli.commands import AGENTS_MAY_TYPE, BEFORE_ANY_TEAM, COMMANDS, CommandEntry
from bullpen.doors.cli.main import app
from support.doors.every_command import commands, for_people, line_of

READ_AND_WORK = ("task list", "team show", "ps", "policy show", "member list", "events")


@pytest.fixture
def as_agent(team: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is run from here on is run by alice, in her shell."""
    monkeypatch.setenv(NONCE, "n-alice")
    monkeypatch.setenv("BULLPEN_AGENT", "alice")
    monkeypatch.setenv("BULLPEN_TEAM", team)


def _files(home: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in home.rglob("*") if path.is_file()}


@pytest.mark.parametrize("path", for_people())
def test_an_agent_is_refused_before_the_command_does_anything(
    path: str,
    as_agent: None,
    run: Callable[..., Any],
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = tmp_path / "project"
    here.mkdir()
    monkeypatch.chdir(here)
    before = _files(home)
    result = run(*line_of(path), "--json")
    assert result.exit_code == 2, result.output
    error = json.loads(result.stdout)["error"]
    assert (error["reason"], error["message"]) == (
        "not_a_person",
        f"An agent cannot run `bullpen {path}`.",
    )
    assert error["remedy"]
    assert _files(home) == before
    assert not any(here.iterdir())


def test_what_an_agent_may_type_are_commands_that_exist() -> None:
    assert set(commands()) >= AGENTS_MAY_TYPE
    assert {path.split()[0] for path in commands()} >= BEFORE_ANY_TEAM


def test_commands_that_change_what_no_rule_of_the_team_guards_are_for_people() -> None:
    people = {
        *("run", "up", "down", "init", "demo", "web", "tui", "mcp", "trust", "doctor", "logs"),
        *("team create", "team delete", "team move", "team resume", "team mirror"),
        *("workspace save", "workspace restore", "workspace remove", "merge run"),
        *("host run", "host forget", "mcp token", "mcp install", "server stop", "auth init"),
    }
    assert people <= set(for_people())


def test_a_new_command_without_a_decision_is_refused(
    as_agent: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COMMANDS, "novel", CommandEntry("teams.member:list_members", "New"))
    monkeypatch.setattr(typer.testing, "_get_command", get_command)
    result = CliRunner().invoke(app, ["novel", "--json"])
    assert json.loads(result.stdout)["error"]["reason"] == "not_a_person"


@pytest.mark.parametrize("path", READ_AND_WORK)
def test_an_agent_types_what_is_in_the_table(
    path: str, team: str, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        "bullpen.doors.cli.permissions.people_only.refuse_agents",
        lambda _, typed: asked.append(typed),
    )
    run(*line_of(path))
    assert asked == []


def test_a_person_is_not_refused(run: Callable[..., Any], team: str) -> None:
    assert run("team", "create", "beta").exit_code == 0
    assert run("trust", "--list").exit_code == 0
