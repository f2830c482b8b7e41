"""`bullpen member`: adding, listing and removing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_adding_a_member_says_its_colour(ok: Callable[..., str], team: str) -> None:
    assert ok("member", "add", "carol") == "Added carol (yellow).\n"


def test_a_name_that_is_taken_or_cannot_be_one_is_refused(
    run: Callable[..., Any], team: str
) -> None:
    assert run("member", "add", "alice").exit_code == 4
    assert run("member", "add", "../x").exit_code == 2
    assert run("member", "add", "").exit_code == 2


def test_members_are_listed_with_what_they_do(ok: Callable[..., str], team: str) -> None:
    ok("task", "claim", "2", "--as", "bob")

    lines = ok("member", "list").splitlines()

    assert lines[0].split() == ["MEMBER", "COLOR", "STATE", "SINCE", "TASKS", "UNREAD", "TYPE"]
    assert [line.split()[0] for line in lines[1:]] == ["team-lead", "alice", "bob"]
    assert lines[3].split()[4] == "2"


def test_a_row_that_is_no_member_is_reported(
    run: Callable[..., Any], team: str, home: Path
) -> None:
    path = home / "teams/alpha/config.json"
    config = json.loads(path.read_bytes())
    config["members"].append({"name": 7})
    path.write_text(json.dumps(config), encoding="utf-8")

    result = run("member", "list", "--json")

    assert result.exit_code == 0
    assert json.loads(result.stdout)["problems"]
    assert result.stderr.startswith("warning: cannot read ")


def test_removing_a_member_says_which_tasks_are_pending_again(
    run: Callable[..., Any], ok: Callable[..., str], team: str
) -> None:
    ok("task", "claim", "1", "--as", "alice")

    assert ok("member", "remove", "alice").splitlines() == [
        "Removed alice.",
        "Pending again: task 1.",
    ]
    assert run("member", "remove", "alice").exit_code == 3


def test_the_lead_cannot_be_removed(run: Callable[..., Any], team: str) -> None:
    result = run("member", "remove", "team-lead", "--json")

    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["reason"] == "is_lead"
