"""How `bullpen` fails: exit codes, what it says, and that it never shows a traceback."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HOSTILE = [
    "", "-", "--", "-x", "\0", "a\0b", "\udcff", "\x1b[31m", "../../etc", "a" * 100_000, "９",
    "1e9", "-5", "9" * 5000, "@team", "@0", ".", "\u202e", "{}", "[/red]", "%s", "\n", "💩" * 999,
]  # fmt: skip
PLACES = [
    "team create", "team show", "team delete --yes", "member add", "member remove", "task add",
    "task show", "task claim", "task done", "task release", "task delete", "task edit --subject",
    "task edit 1 --subject", "task done 1 --attempt", "task add s --blocked-by",
    "task add s --owner", "task add s --check", "task add s --check-file",
    "task add s --description", "task list --status", "task list --owner", "send alice", "send",
    "inbox", "events --after", "events --limit", "doctor -t", "task list --home",
    "member add c --cwd", "member add d --prompt", "task list -t", "task list --as",
    "task add s --as", "send alice hi --as", "send alice hi --key", "send alice hi --reply-to",
    "task check 1", "task check 1 --cwd", "task done 1 --force", "task depend 1",
    "task undepend 1", "--home",
]  # fmt: skip


def test_hostile_words_never_give_a_traceback_or_leave_the_home(
    run: Callable[..., Any],
    team: str,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    pairs = [(place, word) for place in PLACES for word in HOSTILE]

    for place, word in random.Random(7).sample(pairs, 250):
        result = run(*place.split(), word, "--json", typed=b"\xff")
        assert result.exit_code in {0, 2, 3, 4, 5}, (place, word[:50], result.output)
        assert "Traceback" not in result.output
        assert "bug" not in result.stderr, (place, word[:50], result.stderr)
        if word != "--":
            json.loads(result.stdout)
    assert not list((tmp_path / "here").iterdir())
    assert {path.name for path in tmp_path.iterdir()} == {"here", "home"}
    assert run("doctor", "--all").exit_code == 0


def test_arguments_that_are_not_utf8_are_kept(spawn: Callable[..., Any], team: str) -> None:
    added = spawn("task", "add", b"bad \xff byte")
    assert (added.returncode, added.stdout) == (0, "Added task 4: bad \\udcff byte\n")

    assert json.loads(spawn("task", "show", "4", "--json").stdout)["subject"] == "bad \udcff byte"
    assert spawn("member", "add", b"\xff").returncode == 2
    assert spawn("task", "list", "--home", b"/nonexistent/\xff").returncode == 3


def _shell(script: str) -> subprocess.CompletedProcess[str]:
    script = script.replace("bullpen", f"{sys.executable} -m bullpen")
    return subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("words", ["events", "events --json", "task list", "--help"])
def test_a_reader_that_goes_away_ends_the_command_quietly(team: str, words: str) -> None:
    result = _shell(f"bullpen {words} | true; exit ${{PIPESTATUS[0]}}")

    assert result.stderr == ""
    assert result.returncode in {0, 1, 141}


def test_a_reader_of_a_long_answer_that_goes_away_ends_the_command_quietly(
    run: Callable[..., Any], team: str
) -> None:
    run("task", "add", "long", "--description", "-", typed=b"x\n" * 200_000)

    result = _shell("bullpen task show 4 | head -1; exit ${PIPESTATUS[0]}")

    assert (result.returncode, result.stderr) == (141, "")
    assert result.stdout == "task:     4\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("json_option", ["", "--json"])
def test_an_answer_that_cannot_be_written_is_an_error(team: str, json_option: str) -> None:
    result = _shell(f"bullpen task list {json_option} > /dev/full")

    assert result.returncode == 1
    assert result.stderr.splitlines()[0] == (
        "error: Cannot write the output: No space left on device."
    )
    assert len(result.stderr.splitlines()) == 2


def test_closed_streams_change_nothing_but_the_text(team: str) -> None:
    assert _shell("bullpen task show 1 >&-").returncode == 0
    failed = _shell("bullpen task show 99 --json 2>&-")
    assert failed.returncode == 3
    assert set(json.loads(failed.stdout)) == {"schema", "error"}
    assert _shell("bullpen send alice - <&-").returncode == 2
    assert _shell("bullpen task list <&-").returncode == 0


def test_a_removed_directory_is_an_error_with_a_remedy(team: str, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()

    result = _shell(f"cd {gone} && rmdir {gone} && bullpen member add carol")

    assert result.returncode == 2
    assert "Name another directory with --cwd." in result.stderr


_WITHOUT_NATS = "import sys; sys.modules['nats'] = None; from bullpen.__main__ import main; main()"


def test_a_command_of_an_extra_that_is_not_installed_names_the_extra(home: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", _WITHOUT_NATS, "hosts"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert result.returncode == 5
    assert result.stderr.splitlines() == [
        "error: Packages are not installed: nats.",
        "hint: Run: pip install 'bullpen[nats]'",
    ]
