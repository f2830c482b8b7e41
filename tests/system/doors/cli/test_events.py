"""`bullpen events`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def test_following_shows_new_events_and_ends_at_the_limit(
    follow: Callable[..., Any], ok: Callable[..., str], team: str
) -> None:
    following = follow("events", "--after", "6", "--follow", "--limit", "2", "--jsonl")
    ok("task", "add", "Four")
    assert json.loads(following.line())["seq"] == 7
    ok("task", "add", "Five")
    assert json.loads(following.line())["changes"][0]["task"]["subject"] == "Five"

    assert following.ended() == (0, "")


def test_following_without_json_writes_a_line_for_each(
    follow: Callable[..., Any], team: str
) -> None:
    following = follow("events", "--follow")

    assert following.line().startswith("1  ")
    assert following.interrupt() == (130, "")


def test_events_end_to_end_as_json(spawn: Callable[..., Any], team: str) -> None:
    listed = spawn("events", "--json")
    assert (listed.returncode, listed.stderr) == (0, "")
    event = json.loads(listed.stdout)["events"][1]
    assert (event["seq"], event["actor"], event["op"]) == (2, "team-lead", "member.join")


def test_events_end_to_end_with_a_bad_bound(spawn: Callable[..., Any], team: str) -> None:
    refused = spawn("events", "--after", "-1", "--json")

    assert refused.returncode == 2
    assert json.loads(refused.stdout)["error"]["kind"] == "usage"
