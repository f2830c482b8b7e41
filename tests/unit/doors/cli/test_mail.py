"""`bullpen send` and `bullpen inbox`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bullpen.doors.cli.options import completion
from bullpen.protocol import names
from bullpen.protocol.agent import End
from support.asking import hire, in_team


def test_sending_says_how_many_are_ahead(ok: Callable[..., str], team: str) -> None:
    assert ", 0 unread" not in ok("send", "alice", "one")
    assert ok("send", "alice", "two").endswith(", 1 unread before it).\n")


def test_the_same_key_sends_once(
    ok: Callable[..., str], as_json: Callable[..., Any], team: str
) -> None:
    assert as_json("send", "alice", "one", "--key", "k")["duplicate"] is False
    assert "nothing new was sent" in ok("send", "alice", "one", "--key", "k")
    assert len(as_json("inbox", "alice")["messages"]) == 1


def test_a_message_to_the_team_cannot_be_a_reply(run: Callable[..., Any], team: str) -> None:
    assert run("send", "@team", "all", "--reply-to", "x").exit_code == 2


def test_a_text_can_come_from_standard_input(
    run: Callable[..., Any], as_json: Callable[..., Any], team: str
) -> None:
    run("send", "alice", "-", typed="one\ntwo ☃\n".encode())

    assert as_json("inbox", "alice")["messages"][0]["message"]["text"] == "one\ntwo ☃"


def test_input_that_is_not_utf8_is_refused_and_not_changed(
    run: Callable[..., Any], as_json: Callable[..., Any], team: str
) -> None:
    result = run("send", "alice", "-", typed=b"ab\xff")

    assert result.exit_code == 2
    assert "not UTF-8" in result.stderr
    assert as_json("inbox", "alice")["messages"] == []


def test_input_without_end_is_refused(
    run: Callable[..., Any], team: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bullpen.doors.cli.session._INPUT_BYTES_MAX", 10)

    assert run("send", "alice", "-", typed=b"x" * 11).exit_code == 2
    assert run("send", "alice", "-", typed=b"x" * 10).exit_code == 0


def test_an_empty_text_and_an_unknown_receiver_are_refused(
    run: Callable[..., Any], team: str
) -> None:
    assert run("send", "alice", "").exit_code == 2
    unknown = run("send", "alise", "hello")
    assert unknown.exit_code == 3
    assert "Did you mean 'alice'" in unknown.stderr


def test_the_inbox_shows_sender_age_state_summary_and_text(
    ok: Callable[..., str], as_json: Callable[..., Any], team: str
) -> None:
    sent = as_json("send", "alice", "first line\nsecond line", "--summary", "Greeting")

    head, *text = ok("inbox", "alice").splitlines()

    sender, number, ago, state, *rest = head.split()
    assert (sender, ago, state) == ("you", "ago", "stored")
    assert number.endswith("s")
    assert rest == [f"{sent['id']}:", "Greeting"]
    assert text == ["    first line", "    second line"]


def test_the_inbox_is_your_own_unless_another_is_named(ok: Callable[..., str], team: str) -> None:
    ok("send", "bob", "for bob")

    assert "for bob" in ok("inbox", "--as", "bob")
    assert ok("inbox") == ("No messages for team-lead. Send one: bullpen send team-lead 'TEXT'\n")


def test_looking_does_not_mark_as_seen(
    ok: Callable[..., str], as_json: Callable[..., Any], team: str
) -> None:
    ok("send", "alice", "one")

    ok("inbox", "alice")
    assert as_json("inbox", "alice", "--unread")["messages"][0]["state"] == "stored"
    ok("inbox", "alice", "--mark-seen")
    assert ok("inbox", "alice", "--unread") == (
        "No unread messages for alice. See all: bullpen inbox alice\n"
    )
    assert as_json("inbox", "alice")["messages"][0]["state"] == "seen"


def test_a_row_that_is_no_message_is_a_warning_and_in_the_json(
    run: Callable[..., Any], ok: Callable[..., str], team: str, home: Path
) -> None:
    ok("send", "alice", "good")
    path = home / "teams/alpha/inboxes/alice.json"
    rows = json.loads(path.read_bytes())
    path.write_text(json.dumps([*rows, {"no": "message"}]), encoding="utf-8")

    result = run("inbox", "alice", "--json")

    assert result.exit_code == 0
    value = json.loads(result.stdout)
    assert [one["message"]["text"] for one in value["messages"]] == ["good"]
    assert value["problems"]
    assert result.stderr.startswith("warning: cannot read ")


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (
            {"type": "shutdown_request", "requestId": "r", "from": "lead", "reason": "done"},
            "lead asks you to shut down: done",
        ),
        ({"type": "shutdown_approved", "requestId": "r", "from": "bob"}, "bob shuts down."),
        (
            {"type": "shutdown_rejected", "requestId": "r", "from": "bob", "reason": "busy"},
            "bob keeps working: busy",
        ),
        (
            {"type": "idle_notification", "from": "bob", "completedTaskId": "3"},
            "bob is idle, task 3 completed.",
        ),
        (
            {"type": "plan_approval_request", "from": "bob", "planContent": "1. x"},
            "bob asks you to approve this plan:\n    1. x",
        ),
        (
            {"type": "plan_approval_response", "approved": False, "feedback": "no"},
            "x rejected your plan: no",
        ),
        (
            {"type": "permission_request", "request_id": "r", "agent_id": "bob",
             "tool_name": "Bash", "description": "rm"},
            "bob asks to use Bash: rm",
        ),
        (
            {"type": "permission_response", "request_id": "r", "subtype": "success"},
            "x allowed your tool call.",
        ),
        (
            {"type": "task_completed", "from": "bob", "taskId": "3", "taskSubject": "s"},
            "bob completed task 3: s",
        ),
        (
            {"type": "mode_set_request", "mode": "plan", "from": "lead"},
            "lead sets your permission mode to plan.",
        ),
        ({"type": "unheard_of", "x": 1}, '{"type": "unheard_of"'),
        ({"type": "shutdown_request"}, '{"type": "shutdown_request"'),
    ],
)  # fmt: skip
def test_payloads_are_said_in_words(
    ok: Callable[..., str], team: str, home: Path, payload: dict[str, Any], said: str
) -> None:
    timestamp = "2026-11-14T22:47:12.537Z"
    text = json.dumps({**payload, "timestamp": timestamp})
    entry = {"from": "x", "text": text, "timestamp": timestamp, "read": False}
    (home / "teams/alpha/inboxes/alice.json").write_text(json.dumps([entry]), encoding="utf-8")

    assert f"    {said}" in ok("inbox", "alice")


def test_a_time_that_cannot_be_read_is_shown_as_unknown(
    ok: Callable[..., str], team: str, home: Path
) -> None:
    entry = {"from": "x", "text": "hello", "timestamp": "yesterday", "read": False}
    (home / "teams/alpha/inboxes/alice.json").write_text(json.dumps([entry]), encoding="utf-8")

    assert "x  ? ago  stored" in ok("inbox", "alice")


def test_following_an_unknown_mailbox_is_an_error(run: Callable[..., Any], team: str) -> None:
    assert run("inbox", "nobody", "--follow").exit_code == 3


def test_everybody_has_one_name() -> None:
    """It is written twice, since whoever only wants help must not wait for the records."""
    assert completion.EVERYBODY == names.EVERYBODY


@pytest.mark.parametrize(
    ("end", "remedy"),
    [
        ("lost", "bullpen team resume calc\n"),
        ("stopped", "bullpen team resume calc --agent team-lead\n"),
    ],
)
def test_a_message_to_a_lead_that_has_ended_says_so(
    run: Callable[..., Any], ok: Callable[..., str], home: Path, end: End, remedy: str
) -> None:
    ok("team", "create", "calc")
    ok("member", "add", "ann")
    hire(home, "team-lead")
    lead = "calc-team-lead"
    in_team(home, lambda t: t.agents.end("team-lead", end, by="team-lead", nonce=lead))
    sent = run("send", "team-lead", "Go on", "--json")
    assert set(json.loads(sent.stdout)) >= {"id", "to", "seq", "ahead", "duplicate"}
    assert "team-lead is not running, so it does nothing with your message now." in sent.stderr
    assert sent.stderr.endswith(remedy)
    assert run("send", "ann", "Hello").stderr == "", "a person needs no start"
