"""`bullpen send` and `bullpen inbox`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def test_following_an_inbox_shows_new_messages_and_marks_them(
    follow: Callable[..., Any], ok: Callable[..., str], as_json: Callable[..., Any], team: str
) -> None:
    ok("send", "alice", "before")
    following = follow("inbox", "alice", "--follow", "--mark-seen", "--jsonl")
    assert json.loads(following.line())["message"]["text"] == "before"
    ok("send", "alice", "after")
    assert json.loads(following.line())["message"]["text"] == "after"
    ok("send", "alice", "last")
    assert json.loads(following.line())["message"]["text"] == "last"

    assert following.interrupt() == (130, "")
    states = [one["state"] for one in as_json("inbox", "alice")["messages"]]
    assert states[:2] == ["seen", "seen"]
