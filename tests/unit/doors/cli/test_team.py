"""`bullpen team`: creating, listing, showing, watching and deleting."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from bullpen.protocol.presence import Presence
from bullpen.store.files.store import FileStore


def test_creating_a_team_says_what_to_try_next(run: Callable[..., Any]) -> None:
    result = run("team", "create", "alpha")

    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "Created team alpha. Try next:",
        "  bullpen member add alice -t alpha",
        "  bullpen task add 'First task' -t alpha",
    ]


def test_a_team_that_nobody_named_is_named_by_the_time(
    as_json: Callable[..., Any], run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bullpen.doors.cli.teams.team.now_ms", lambda: 1_794_696_431_000)
    made = run("team", "create").stdout.splitlines()[0]
    assert made == "Created team team-20261114-224711. Try next:"
    assert as_json("team", "create")["name"] == "team-20261114-224711-2"


def test_what_to_try_next_names_the_home_that_was_named(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    result = run("team", "create", "alpha", "--home", str(tmp_path / "other"))

    assert f"-t alpha --home {tmp_path / 'other'}" in result.stdout


def test_the_lead_works_in_the_current_directory_unless_told(
    as_json: Callable[..., Any], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)

    assert as_json("team", "create", "alpha")["members"][0]["cwd"] == str(tmp_path)


def test_a_name_that_is_taken_is_a_conflict(run: Callable[..., Any], team: str) -> None:
    assert run("team", "create", team).exit_code == 4


def test_a_home_without_teams_says_how_to_create_one(ok: Callable[..., str]) -> None:
    assert ok("team", "list") == "No teams yet. Create one: bullpen team create NAME\n"


def test_any_command_without_a_team_says_how_to_create_one(run: Callable[..., Any]) -> None:
    for words in (["task", "list"], ["member", "list"], ["inbox"], ["events"], ["team", "show"]):
        result = run(*words)
        assert result.exit_code == 3, words
        assert "hint: Create one: bullpen team create NAME" in result.stderr


def test_with_several_teams_the_latest_one_here_is_meant(
    run: Callable[..., Any], team: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run("team", "create", "beta")

    result = run("task", "list")
    assert result.exit_code == 0 and "No tasks yet" in result.stdout
    assert result.stderr.count("Using team beta, the latest one in") == 1
    assert run("task", "list", "-t", team).stderr == ""
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert "Using team beta" in run("task", "list").stderr
    run("team", "create", "gamma")
    assert "Using team gamma" in run("task", "list").stderr


def test_with_several_teams_elsewhere_one_must_be_named(
    run: Callable[..., Any], team: str, tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    run("team", "create", "beta")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))

    result = run("task", "list")
    assert result.exit_code == 2
    assert "alpha, beta" in result.stderr
    assert run("task", "list", "-t", "beta").exit_code == 0


def test_teams_are_listed_with_what_each_has_done(ok: Callable[..., str], team: str) -> None:
    head, row = ok("team", "list").splitlines()

    columns = "TEAM MEMBERS PENDING IN-PROGRESS COMPLETED AGE FOLDER DESCRIPTION"
    assert head.split() == columns.split()
    *counts, age, folder, _, _ = row.split()
    assert counts == ["alpha", "3", "3", "0", "0"]
    assert (age[-1], folder) == ("s", os.getcwd())


def test_a_team_that_cannot_be_read_is_listed_with_a_warning(
    run: Callable[..., Any], team: str, home: Path
) -> None:
    (home / "teams/alpha/config.json").write_text("{", encoding="utf-8")

    plain, programs = run("team", "list"), run("team", "list", "--json")

    assert plain.exit_code == programs.exit_code == 0
    assert "alpha  ?" in plain.stdout
    assert "warning: team alpha: " in plain.stderr
    assert json.loads(programs.stdout)["teams"][0]["problem"]


def test_showing_a_team_gives_members_tasks_and_what_is_pending(
    ok: Callable[..., str], team: str
) -> None:
    ok("task", "claim", "1", "--as", "alice")
    ok("send", "bob", "hello")

    lines = ok("team", "show").splitlines()

    assert lines[0] == "alpha: Ship it"
    members = {line.split()[0]: line.split() for line in lines if "general-purpose" in line}
    assert members["alice"][1:6] == ["blue", "unknown", "-", "1", "0"]
    assert members["bob"][1:6] == ["green", "unknown", "-", "-", "1"]
    assert "2 pending, 1 in progress, 0 completed" in "\n".join(lines)


def test_showing_a_team_shows_its_problems(run: Callable[..., Any], team: str, home: Path) -> None:
    (home / "tasks/alpha/2.json").write_text("{", encoding="utf-8")

    shown = run("team", "show").stdout.splitlines()
    programs = run("team", "show", "--json")

    assert "problems:               1" in shown
    assert shown[-1].startswith("problem: ")
    assert "2.json" in shown[-1]
    assert "2.json" in json.loads(programs.stdout)["problems"][0]["where"]
    assert programs.stderr.startswith("warning: cannot read ")


def test_deleting_without_a_terminal_takes_a_yes(run: Callable[..., Any], team: str) -> None:
    refused = run("team", "delete", team, "--json")

    assert refused.exit_code == 2
    assert json.loads(refused.stdout)["error"]["reason"] == "not_confirmed"
    assert run("team", "delete", team, "--yes").stdout == "Deleted team alpha.\n"
    assert "No teams yet" in run("team", "list").stdout


def test_a_team_whose_members_work_is_deleted_by_force_only(
    run: Callable[..., Any], team: str, home: Path
) -> None:
    now = time.time_ns() // 1_000_000
    presence = Presence.new(
        agent="alice", state="working", since_ms=now, beat_ms=now, ttl_ms=600_000
    )
    anyio.run(FileStore(home).beat, team, presence)

    assert "members at work: alice" in run("team", "delete", team, "--yes").stderr
    assert run("team", "delete", team, "--yes", "--force").exit_code == 0
