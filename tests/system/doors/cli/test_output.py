"""What reaches a terminal, a pipe and a program, and what must never reach a terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

EVIL = "\x1b]0;owned\x07\x1b[2J[bold]x[/bold] [/red]\u202e\x9b31m\r\nnext"


def test_hostile_text_is_neutralised_everywhere_at_a_terminal(
    run: Callable[..., Any], at_terminal: Callable[..., tuple[int, str]], team: str
) -> None:
    run("task", "add", EVIL, "--description", EVIL)
    run("send", "alice", EVIL, "--summary", EVIL)

    for words in (["task", "list"], ["task", "show", "4"], ["task", "graph"], ["inbox", "alice"]):
        code, shown = at_terminal(*words, NO_COLOR="1")
        assert code == 0
        assert not set(shown) & set("\x1b\x07\x9b\u202e"), words
        assert "[bold]x[/bold]" in shown, "markup is shown, not carried out"


def test_a_terminal_gets_tables_and_colours(
    at_terminal: Callable[..., tuple[int, str]], team: str
) -> None:
    code, shown = at_terminal("team", "show")

    assert code == 0
    assert "──" in shown
    assert "\x1b[34malice" in shown


def test_no_color_is_honoured(at_terminal: Callable[..., tuple[int, str]], team: str) -> None:
    code, shown = at_terminal("team", "show", NO_COLOR="1")

    assert code == 0
    assert "alice" in shown
    assert "\x1b" not in shown


def test_a_dumb_terminal_gets_plain_text(
    at_terminal: Callable[..., tuple[int, str]], team: str
) -> None:
    code, shown = at_terminal("task", "list", TERM="dumb")

    assert code == 0
    assert shown.startswith("ID  STATUS")


def test_json_at_a_terminal_is_plain_json(
    at_terminal: Callable[..., tuple[int, str]], team: str
) -> None:
    code, shown = at_terminal("task", "list", "--json")

    assert code == 0
    assert len(json.loads(shown)["tasks"]) == 3


def test_one_long_subject_does_not_fill_a_terminal(
    run: Callable[..., Any], at_terminal: Callable[..., tuple[int, str]], team: str
) -> None:
    run("task", "add", "x" * 50_000)

    assert len(at_terminal("task", "list")[1]) < 5000
    assert "x" * 50_000 in run("task", "list").stdout


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_encoding_that_lacks_characters_loses_nothing(
    run: Callable[..., Any], team: str, encoding: str
) -> None:
    run("task", "add", "naïve ☃")

    def bytes_of(*words: str) -> bytes:
        return subprocess.run(
            [sys.executable, "-m", "bullpen", *words],
            env={**os.environ, "PYTHONIOENCODING": encoding},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=True,
        ).stdout

    shown = bytes_of("task", "show", "4").decode(encoding)
    assert "na\\xefve \\u2603" in shown or "naïve \\u2603" in shown
    assert json.loads(bytes_of("task", "show", "4", "--json"))["subject"] == "naïve ☃"


def test_a_terminal_that_lacks_characters_loses_nothing(
    run: Callable[..., Any], at_terminal: Callable[..., tuple[int, str]], team: str
) -> None:
    run("task", "add", "naïve ☃")

    code, shown = at_terminal("task", "list", PYTHONIOENCODING="ascii")

    assert code == 0
    assert "na\\xefve \\u2603" in shown
