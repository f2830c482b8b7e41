"""`bullpen task`: the shared task list."""

from __future__ import annotations

import json
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


def test_task_end_to_end_two_members_finish_a_chain(spawn: Callable[..., Any], team: str) -> None:
    first = json.loads(spawn("task", "claim", "--as", "alice", "--json").stdout)
    second = json.loads(spawn("task", "claim", "--as", "bob", "--json").stdout)
    assert (first["id"], second["id"]) == ("1", "2")

    spawn("task", "done", "1", "--as", "alice")
    done = json.loads(spawn("task", "done", "2", "--as", "bob", "--json").stdout)
    assert (done["task"]["status"], done["unblocked"]) == ("completed", ["3"])


def test_task_end_to_end_add_list_show_delete(spawn: Callable[..., Any], team: str) -> None:
    added = json.loads(spawn("task", "add", "Ship", "--blocked-by", "3", "--json").stdout)
    assert (added["id"], added["blockedBy"]) == ("4", ["3"])

    assert json.loads(spawn("task", "show", "4", "--json").stdout) == added
    assert spawn("task", "delete", "4", "--json").returncode == 0
    listed = json.loads(spawn("task", "list", "--json").stdout)
    assert [task["id"] for task in listed["tasks"]] == ["1", "2", "3"]
    assert spawn("task", "show", "4", "--json").returncode == 3
