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


def test_send_end_to_end_both_ways(spawn: Callable[..., Any], team: str) -> None:
    sent = json.loads(spawn("send", "alice", "-", "--json", typed="from a pipe").stdout)
    answer = spawn("send", "team-lead", "yes", "--as", "alice", "--reply-to", sent["id"], "--json")
    assert answer.returncode == 0

    message = json.loads(spawn("inbox", "--json").stdout)["messages"][0]["message"]
    assert (message["from"], message["text"]) == ("alice", "yes")
    assert message["inReplyTo"] == sent["id"]


def test_send_end_to_end_to_nobody(spawn: Callable[..., Any]) -> None:
    spawn("team", "create", "lonely")
    refused = spawn("send", "@team", "hello", "--json")

    assert refused.returncode == 2
    assert json.loads(refused.stdout)["error"]["reason"] == "nobody"


def test_inbox_end_to_end_mark_seen(spawn: Callable[..., Any], team: str) -> None:
    spawn("send", "bob", "hello")
    shown = json.loads(spawn("inbox", "bob", "--mark-seen", "--json").stdout)
    assert shown["messages"][0]["message"]["text"] == "hello"

    assert json.loads(spawn("inbox", "bob", "--unread", "--json").stdout)["messages"] == []


def test_inbox_end_to_end_of_nobody(spawn: Callable[..., Any], team: str) -> None:
    missing = spawn("inbox", "nobody", "--json")

    assert missing.returncode == 3
    assert json.loads(missing.stdout)["error"]["kind"] == "not_found"
