"""`bullpen events`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_events_say_when_who_and_what(ok: Callable[..., str], team: str) -> None:
    ok("task", "claim", "1", "--as", "alice")
    ok("send", "bob", "hi", "--summary", "Greeting")

    lines = ok("events").splitlines()

    assert lines[0].split() == ["SEQ", "TIME", "WHO", "OP", "WHAT"]
    assert [line.split()[0] for line in lines[1:]] == [str(seq) for seq in range(1, len(lines))]
    assert "alice      task.claim" in lines[-2]
    assert lines[-2].endswith("task 1 is in_progress, alice: Write the parser")
    assert lines[-1].endswith("message from you to bob: Greeting")


def test_events_can_be_bounded(as_json: Callable[..., Any], team: str) -> None:
    def sequence(*words: str) -> list[int]:
        return [event["seq"] for event in as_json("events", *words)["events"]]

    assert sequence("--after", "2", "--limit", "2") == [3, 4]
    assert sequence("--after", "0", "--limit", "2") == [1, 2]
    assert sequence("--after", "999999999999999999999") == []


def test_a_limit_alone_gives_the_newest_with_the_newest_last(
    as_json: Callable[..., Any], team: str
) -> None:
    every = [event["seq"] for event in as_json("events")["events"]]
    assert [event["seq"] for event in as_json("events", "--limit", "2")["events"]] == every[-2:]


def test_no_events_is_said(ok: Callable[..., str], team: str) -> None:
    assert ok("events", "--after", "9999") == "No events yet.\n"


def test_every_kind_of_change_is_said_in_words(
    ok: Callable[..., str], team: str, home: Path
) -> None:
    ok("send", "bob", "hi")
    ok("inbox", "bob", "--mark-seen")
    ok("task", "delete", "3")
    ok("member", "remove", "bob")
    path = home / "tasks/alpha/1.json"
    path.write_bytes(path.read_bytes().replace(b"parser", b"reader"))

    said = ok("events")

    for words in (
        "team: name, description",
        "member alice",
        "task 3 deleted",
        "member bob removed",
        "1 of bob's messages seen",
        "Write the reader (done by another program)",
    ):
        assert words in said
