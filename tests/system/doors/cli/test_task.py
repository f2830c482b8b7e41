"""`bullpen task`: the shared task list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_showing_a_task_gives_all_it_says(
    run: Callable[..., Any], ok: Callable[..., str], team: str
) -> None:
    command = "tests=echo 2 of 40; exit 3"
    ok("task", "add", "Ship", "--description", "All\nof it", "--check", command)
    ok("task", "claim", "4", "--as", "bob")
    assert run("task", "check", "4").exit_code == 1

    assert ok("task", "show", "4").splitlines() == [
        "task:     4",
        "subject:  Ship",
        "status:   in_progress",
        "owner:    bob",
        "attempt:  1",
        "check tests, failed 0s ago: echo 2 of 40; exit 3",
        "    exit code 3",
        "    2 of 40",
        "Description:",
        "  All",
        "  of it",
    ]


def test_the_graph_is_drawn_at_a_terminal(
    at_terminal: Callable[..., tuple[int, str]], team: str
) -> None:
    code, drawing = at_terminal("task", "graph")

    assert code == 0
    assert "└─ 3 [blocked] Test both" in drawing
