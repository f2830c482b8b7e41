"""`bullpen requests`, `approve` and `deny`: people see exactly what they answer."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.asking import ask, hire, stored


@pytest.fixture(autouse=True)
def calc(ok: Callable[..., str], home: Path) -> None:
    """A team with two agents that may ask."""
    ok("team", "create", "calc")
    hire(home, "alice")
    hire(home, "bob", mode="plan")


def test_an_input_can_be_changed_in_an_editor(
    at_terminal: Callable[..., tuple[int, str]], home: Path
) -> None:
    request = ask(home, "alice")
    editor = "sed -i s/origin.main/--dry-run/"
    code, shown = at_terminal("approve", "--edit", EDITOR=editor, VISUAL="")
    assert (code, "git push --dry-run" in shown) == (0, True)
    assert stored(home, request).answer == {"updatedInput": {"command": "git push --dry-run"}}
    again = ask(home, "alice")
    assert at_terminal("approve", "--edit", EDITOR="false", VISUAL="")[0] == 2
    assert stored(home, again).state == "pending"
    assert at_terminal("approve", "--edit", EDITOR="true", VISUAL="")[0] == 0
    assert stored(home, again).answer is None


def test_whoever_watches_sees_requests_come_and_go(
    follow: Callable[..., Any], ok: Callable[..., str], home: Path
) -> None:
    watching = follow("requests", "--watch")
    assert watching.line().startswith("No requests wait.")
    request = ask(home, "alice")
    lines = [watching.line() for _ in range(10)]
    assert f"  bullpen approve {request.id[-4:]}" in lines
    ok("approve")
    while not (line := watching.line()):
        pass
    assert line == "alice: approved by you: Bash git push origin main"
    assert watching.interrupt()[0] == 128 + signal.SIGINT


def test_at_a_terminal_the_command_to_type_stands_alone_on_the_last_line(
    at_terminal: Callable[..., tuple[int, str]], home: Path
) -> None:
    request = ask(home, "alice", given={"command": "git push " + "x" * 300})
    _, shown = at_terminal("ps", COLUMNS="80", NO_COLOR="1")
    lines = shown.splitlines()
    assert lines[-1] == f"Answer: bullpen approve {request.id[-4:]}"
    assert max(map(len, lines)) <= 80
