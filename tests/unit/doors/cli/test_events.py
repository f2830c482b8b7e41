"""`bullpen events`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bullpen.doors.cli.output.page import Page
from bullpen.doors.cli.output.records_view import RecordViews
from bullpen.protocol.changes import Event
from support.asking import ask, hire


def test_events_say_when_who_and_what(ok: Callable[..., str], team: str) -> None:
    ok("task", "claim", "1", "--as", "alice")
    ok("send", "bob", "hi", "--summary", "Greeting")

    lines = ok("events").splitlines()

    assert lines[0].split() == ["SEQ", "TIME", "WHO", "OP", "WHAT"]
    assert [line.split()[0] for line in lines[1:]] == [str(seq) for seq in range(1, len(lines))]
    assert "alice      task.claim" in lines[-2]
    assert lines[-2].endswith("task 1 is in progress, alice: Write the parser")
    assert lines[-1].endswith("message from you to bob: Greeting")


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
        "team created; team-lead leads the team",
        "alice joined",
        "task 3 deleted",
        "member bob removed",
        "bob has seen 1 message",
        "Write the reader (done by another program)",
    ):
        assert words in said


def test_the_newest_are_the_last_whatever_names_their_number(
    as_json: Callable[..., Any], team: str
) -> None:
    every = [event["seq"] for event in as_json("events")["events"]]
    assert [event["seq"] for event in as_json("events", "-n", "3")["events"]] == every[-3:]
    assert [event["seq"] for event in as_json("events", "-n", "99")["events"]] == every


def test_requests_are_named_by_the_handles_that_people_type(
    ok: Callable[..., str], team: str, home: Path
) -> None:
    hire(home, "carol", team="alpha")
    request = ask(home, "carol", team="alpha")
    handle = request.id[-4:]
    assert f"carol waits for you: Bash git push origin main ({handle})" in ok("events", "-n", "1")
    ok("deny", handle, "No")
    said = ok("events")
    assert f"permission request {handle} of carol denied" in said
    assert "carol is being started" in said
    assert request.id not in said
    assert ok("requests", "--all").splitlines()[-1].split()[:2] == [handle, "denied"]


def test_at_a_terminal_times_are_local_and_without_fractions() -> None:
    shown: list[tuple[str, ...]] = []

    class Terminal(Page):
        draws = True

        def table(self, columns: Any, rows: Any) -> None:
            shown.append(tuple(columns))
            shown.extend(rows)

    event = Event(7, "2026-11-15T05:10:11.500Z", "ann", "team.quiet", ())
    RecordViews(Terminal()).events([event])
    assert shown[0] == ("seq", "time", "who", "what")
    assert re.fullmatch(r"2026-11-1\d \d\d:\d\d:11", shown[1][1])
    assert shown[1][3] == "quiet hours began or ended"
