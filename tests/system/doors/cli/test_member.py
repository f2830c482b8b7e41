"""`bullpen member`: adding, listing and removing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def test_member_end_to_end_add_and_list(spawn: Callable[..., Any], team: str) -> None:
    added = spawn("member", "add", "carol", "--json")
    assert json.loads(added.stdout)["agentId"] == "carol@alpha"

    listed = json.loads(spawn("member", "list", "--json").stdout)
    names = [view["member"]["name"] for view in listed["members"]]
    assert names == ["team-lead", "alice", "bob", "carol"]


def test_member_end_to_end_remove(spawn: Callable[..., Any], team: str) -> None:
    spawn("task", "claim", "1", "--as", "alice")
    removed = json.loads(spawn("member", "remove", "alice", "--json").stdout)

    assert removed["member"]["name"] == "alice"
    assert [task["id"] for task in removed["released"]] == ["1"]
