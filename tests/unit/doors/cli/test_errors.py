"""How `bullpen` fails: exit codes, what it says, and that it never shows a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from bullpen.doors.cli.commands import OTHER_WORDS
from bullpen.doors.cli.main import report
from bullpen.errors import (
    BullpenError,
    Conflict,
    Invalid,
    NotFound,
    Refused,
    Unavailable,
    Unreadable,
)


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (BullpenError("m"), "failed", 1),
        (Refused("m", reason="r"), "refused", 2),
        (Invalid("m"), "refused", 2),
        (typer.BadParameter("m"), "usage", 2),
        (NotFound("m"), "not_found", 3),
        (Conflict("m"), "conflict", 4),
        (Unavailable("m"), "unavailable", 5),
        (Unreadable("p", "w"), "unavailable", 5),
        (KeyError("m"), "bug", 1),
        (ExceptionGroup("g", [NotFound("m")]), "not_found", 3),
    ],
)
def test_every_error_has_its_kind_and_exit_code(
    error: Exception, kind: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(error, ["--json"]) == code

    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["kind"] == kind
    assert err.startswith("error: ")


def test_an_error_says_what_happened_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    report(Refused("No.", reason="why", remedy="Do that."), [])
    assert capsys.readouterr() == ("", "error: No.\nhint: Do that.\n")

    report(Refused("No.", reason="why", remedy="Do that."), ["--json"])
    told = {
        "schema": "bullpen/error/1",
        "error": {"kind": "refused", "message": "No.", "remedy": "Do that.", "reason": "why"},
    }
    assert json.loads(capsys.readouterr().out) == told

    report(Refused("No.", reason="why", remedy="Do that."), ["--jsonl"])
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == told


def test_an_error_cannot_steer_the_terminal_nor_fill_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report(NotFound("\x1b[31m\nerror: fake" + "x" * 100_000), [])

    said = capsys.readouterr().err
    assert said.startswith("error: \\x1b[31m error: fakexxx")
    assert len(said) < 2100


def test_a_bug_is_one_line_unless_debugging(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = KeyError("lost")
    report(error, [])
    said = capsys.readouterr().err
    assert said.startswith("error: Bug in bullpen: KeyError: 'lost'")
    assert "Traceback" not in said

    monkeypatch.setenv("BULLPEN_DEBUG", "1")
    report(error, [])
    assert "KeyError: 'lost'\n" in capsys.readouterr().err


def test_a_bug_inside_a_command_is_reported_not_raised(
    run: Callable[..., Any], team: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("bullpen.doors.cli.session.open_teams_near", broken)
    result = run("task", "list", "--json")

    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["kind"] == "bug"
    assert "ZeroDivisionError: oops" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["nosuch"],
        ["task", "nosuch"],
        ["task", "show"],
        ["task", "show", "1", "2"],
        ["task", "list", "--nosuch"],
        ["task", "list", "--status", "nosuch"],
        ["events", "--limit", "0"],
        ["events", "--after", "x"],
    ],
)
def test_a_usage_error_exits_with_two_and_points_to_the_help(
    run: Callable[..., Any], words: list[str]
) -> None:
    plain, programs = run(*words), run(*words, "--json")

    assert plain.exit_code == programs.exit_code == 2
    assert plain.stdout == ""
    assert "hint: Run: bullpen " in plain.stderr
    assert json.loads(programs.stdout)["error"]["kind"] == "usage"


def test_a_misspelt_command_is_answered_with_a_guess(run: Callable[..., Any]) -> None:
    assert "Did you mean 'claim'" in run("task", "clami").stderr


@pytest.mark.parametrize("words", OTHER_WORDS)
def test_words_of_other_programs_are_answered_with_ours(
    run: Callable[..., Any], words: str
) -> None:
    ours = OTHER_WORDS[words]
    assert f"Did you mean '{ours}'?" in run(*words.split(), "1").stderr
    assert run(*ours.split(), "--help").exit_code == 0


def test_a_group_without_a_command_shows_its_help(run: Callable[..., Any]) -> None:
    for words in (["config"], ["task"]):
        result = run(*words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "Usage: bullpen" in result.stderr


def test_a_store_that_cannot_be_read_exits_with_five(
    run: Callable[..., Any], team: str, home: Path
) -> None:
    (home / "teams/alpha/config.json").write_text("{", encoding="utf-8")

    result = run("task", "list", "--json")

    assert result.exit_code == 5
    assert "config.json" in json.loads(result.stdout)["error"]["message"]


def test_a_home_that_is_a_file_is_an_error_not_an_empty_home(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")

    for words in (["team", "list"], ["team", "create", "alpha"]):
        result = run(*words, "--home", str(tmp_path / "file"))
        assert result.exit_code == 5, result.output


def test_options_before_and_after_the_command_are_the_same(
    run: Callable[..., Any], team: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULLPEN_HOME", "/nonexistent")
    options = ["--home", str(home), "-t", team, "--json"]

    answers = [
        run(*options, "task", "list").stdout,
        run("task", *options, "list").stdout,
        run("task", "list", *options).stdout,
    ]

    assert len(set(answers)) == 1
    assert len(json.loads(answers[0])["tasks"]) == 3


def test_the_option_nearest_to_the_command_wins(run: Callable[..., Any], team: str) -> None:
    result = run("--as", "alice", "task", "--as", "team-lead", "claim", "1", "--as", "bob")

    assert result.stdout == "bob has task 1: Write the parser\n"


def test_a_word_that_is_no_choice_is_told_in_words_of_ours(run: Callable[..., Any]) -> None:
    said = run("spawn", "alice", "--mode", "foo").stderr
    assert said.startswith("error: Invalid value for '--mode': 'foo' is not one of 'default', ")
