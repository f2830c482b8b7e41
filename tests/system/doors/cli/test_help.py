"""Help, completion, and what they may cost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HELP_MODULES = 250
"""How many modules are loaded to show the help, at most; a bare Python loads some 40."""


def test_help_loads_little() -> None:
    program = (
        "import atexit, sys; sys.argv = ['bullpen', '--help'];"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr));"
        "from bullpen.doors.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = done.stderr.split()
    assert len(loaded) < HELP_MODULES
    heavy = {"anyio", "asyncio", "nats", "pydantic", "rich", "textual", "watchfiles", "yaml"}
    heavy |= {f"bullpen.{name}" for name in ("team", "app.settings", "store", "protocol")}
    assert not heavy & set(loaded)


def _completed(line: str, **env: str) -> list[str]:
    """What bash would offer at the end of a line."""
    words = line.split(" ")
    result = subprocess.run(
        [sys.executable, "-m", "bullpen"],
        env={
            **os.environ,
            "_BULLPEN_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
            **env,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.stderr == ""
    return result.stdout.split()


def test_a_shell_completes_commands_teams_members_and_tasks(team: str) -> None:
    assert _completed("bullpen ta") == ["task"]
    assert _completed("bullpen team show ") == ["alpha"]
    assert _completed("bullpen task list -t ") == ["alpha"]
    assert _completed("bullpen task show ") == ["1", "2", "3"]
    assert _completed("bullpen task assign 1 a") == ["alice"]
    assert _completed("bullpen send ") == ["team-lead", "alice", "bob", "@team"]
    assert _completed("bullpen task claim --as b") == ["bob"]


def test_completion_knows_the_home_and_the_team_on_the_line(
    team: str, home: Path, run: Callable[..., Any]
) -> None:
    run("team", "create", "beta")

    line = f"bullpen --home {home} task show -t alpha "
    assert _completed(line, BULLPEN_HOME="/nonexistent") == ["1", "2", "3"]
    assert _completed("bullpen task show -t beta ") == []


def test_completion_is_silent_when_nothing_can_be_read(team: str, home: Path) -> None:
    (home / "teams/alpha/config.json").write_text("{", encoding="utf-8")

    assert _completed("bullpen task show ") == []
    assert _completed("bullpen --home /nonexistent/x task show ") == []
    assert _completed("bullpen events --after x --lim") == ["--limit"]
    assert _completed("bullpen task show ", COMP_CWORD="nonsense") == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_offers_a_shell_nothing_to_evaluate(
    team: str, run: Callable[..., Any], shell: str
) -> None:
    run("task", "add", "Evil \\$(touch x) `y` [/red] 'q' \"z\"\n:0")
    result = subprocess.run(
        [sys.executable, "-m", "bullpen"],
        env={
            **os.environ,
            "_BULLPEN_COMPLETE": f"complete_{shell}",
            "_TYPER_COMPLETE_ARGS": "bullpen task show ",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert "Evil touch x y red q z 0" in result.stdout
    assert not set(result.stdout) & set("$`\\[")
