"""Transcripts as people and programs read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bullpen.doors.cli.agents.transcript_view import TranscriptViews
from bullpen.doors.cli.output.page import Page
from bullpen.view.transcript import TranscriptTail, said
from support.rows import each_row

EVIL = "\x1b[2J\x1b]0;owned\x07[bold]x[/bold]\u202e\x9b31m\nnext"


def _row(kind: str, **data: Any) -> dict[str, Any]:
    return {"time": "2026-11-15T05:10:11.500Z", "kind": kind, **data}


@each_row(
    ("row", "shown"),
    [
        (_row("tool", name="Bash", input={"command": "make test"}), "Bash: make test"),
        (_row("tool", name="Edit", input={"path": "a", "old": "b"}), "Edit: path=a old=b"),
        (_row("result", name="Bash", text="ok", error=False), "Bash ok"),
        (_row("result", name="Bash", text="1", error=True), "Bash failed: 1"),
        (_row("turn", number=3, text="Go on", ids=["m1"]), "3\nGo on"),
        (_row("text", text="I am done"), "I am done"),
        (_row("end", text="Bye", failure=None, interrupted=None), "Bye"),
        (_row("end", number=2, text="Bye", failure=None), "turn 2\nBye"),
        (_row("ready", driver="native", launch=2, born=1795052103759), "driver native, start 2"),
        (_row("note", text="The model is m.", format="1.1"), "The model is m."),
        (_row("request", model="m", messages=1, mail=["a"], summary=False, seconds=1.25),
         "m, 1 message, 1.2 s"),
        (_row("request", model="m", messages=9, summary=True, about="x"),
         "m, 9 messages, for a summary\nabout=x"),
        (_row("ended", end="stopped", cause="team-lead stopped it"),
         "stopped: team-lead stopped it"),
        (_row("usage", inputTokens=1200, outputTokens=34, costUsd=0.01),
         "1200 tokens in, 34 out, $0.010"),
        (_row("denied", tool="Bash", detail="rm -rf x", why="the rule Bash(rm:*) denies it"),
         "Bash rm -rf x: the rule Bash(rm:*) denies it"),
        (_row("permitted", tool="Bash", request="perm-1", by="team-lead"),
         "Bash, by team-lead (perm-1)"),
        (_row("permitted", tool="Bash", request="perm-1", by="team-lead", voice="human"),
         "Bash, by you (perm-1)"),
        (_row("permitted", tool="Bash", request="perm-1", by="team-lead", voice="policy"),
         "Bash, by a rule (perm-1)"),
        (_row("plan", state="submitted", request="plan-1", path="/p.md"),
         "submitted (plan-1)\n/p.md"),
        (_row("plan", state="approved", mode="acceptEdits", feedback="Go"),
         "approved mode acceptEdits\nGo"),
        (_row("plan", state="rejected", mode="plan", feedback="No"), "rejected\nNo"),
        (_row("plan", state="entered"), "entered"),
        (_row("hook", event="PreToolUse", effect="deny", tool="Bash", detail="ls", text="No"),
         "PreToolUse deny Bash ls: No"),
        (_row("hook", event="Stop", text="Note"), "Stop: Note"),
        (_row("something-new", a=1, b=["x"]), 'a=1 b=["x"]'),
    ],
)  # fmt: skip
def test_rows_of_a_transcript_are_said_in_words(row: dict[str, Any], shown: str) -> None:
    assert said(row) == shown


def test_a_transcript_is_shown_with_time_and_kind(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        _row("text", text=f"First {EVIL}"),
        _row("result", name="Bash", text="\n".join(map(str, range(40))), error=False),
    ]
    TranscriptViews(Page(json=False)).rows(rows)
    shown = capsys.readouterr().out
    lines = shown.splitlines()

    assert lines[0].startswith("2026-11-1")
    assert lines[1].split()[1:3] == ["text", "First"]
    assert not set(shown) & set("\x1b\x07\x9b\u202e")
    assert "(28 more lines; --json shows all)" in lines[-1]


def test_a_transcript_for_programs_is_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [_row("text", text=EVIL), _row("odd", x=1)]
    TranscriptViews(Page(json=True)).rows(rows)

    lines = map(json.loads, capsys.readouterr().out.splitlines())
    assert [*lines] == [{"schema": "bullpen/transcript-row/1", **row} for row in rows]


def test_a_transcript_is_read_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "transcript.jsonl"
    tail = TranscriptTail(path)
    assert tail.more() == []
    path.write_bytes(b'{"kind":"a"}\n{"kind":"b"}\n{"ki')
    assert [row["kind"] for row in tail.more()] == ["a", "b"]
    with path.open("ab") as file:
        file.write(b'nd":"c"}\nnonsense\n')
    assert tail.more() == [{"kind": "c"}, {"kind": "damaged", "text": "nonsense"}]
    assert tail.more() == []
    path.unlink()
    path.write_bytes(b'{"kind":"new"}\n')
    assert tail.more() == [{"kind": "new"}]


def test_the_last_rows_are_the_last_ones(tmp_path: Path) -> None:
    path = tmp_path / "transcript.jsonl"
    path.write_bytes(b"".join(b'{"n":%d}\n' % number for number in range(10)) + b'{"n":10')
    tail = TranscriptTail(path)

    assert [row.get("n") for row in tail.last(3)] == [8, 9, None]
    assert TranscriptTail(path).last(0) == []
    assert len(TranscriptTail(path).last(None)) == 11


def test_what_a_turn_ended_with_is_not_said_twice(capsys: pytest.CaptureFixture[str]) -> None:
    show = TranscriptViews(Page(json=False))
    show.rows([_row("text", text="All done"), _row("end", text="All done", failure=None)])
    assert capsys.readouterr().out.count("All done") == 1

    show.rows([_row("end", text="Something else"), _row("usage"), _row("request", text="")])
    assert capsys.readouterr().out.splitlines()[1:] == []


def test_a_turn_that_failed_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    show = TranscriptViews(Page(json=False))
    show.rows([_row("text", text="Half"), _row("end", text="Half", failure="401")])
    assert "failure=401" in capsys.readouterr().out


def test_people_see_what_a_turn_began_with_once_and_no_digest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    mail, digest = "From bob: Hello.", "<team-digest>\nYou are ann.\n</team-digest>\n"
    show = TranscriptViews(Page())
    show.rows(
        [
            _row("ready", driver="scripted", launch=2, born=1794807528833),
            _row("mail", text=mail),
            _row("turn", number=1, text=f"{digest}{mail}\nTask 4 is yours."),
            _row("request", text=f"{digest}{mail}\nTask 4 is yours."),
            _row("permitted", tool="Bash", request="perm-1794807514594-47ba95d", by="you"),
        ]
    )
    lines = [line[10:] for line in capsys.readouterr().out.splitlines()[1:]]
    assert lines == [
        "ready   driver scripted, start 2",
        "mail    From bob: Hello.",
        "turn    1",
        "        Task 4 is yours.",
        "allowed Bash, by you (a95d)",
    ]


def test_what_others_wrote_is_shown_as_they_wrote_it() -> None:
    words = "See perm-1794807514594-47ba95d"
    assert said(_row("text", text=words)) == words
    assert said(_row("note", text=words)) == "See a95d"
