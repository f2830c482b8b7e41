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
