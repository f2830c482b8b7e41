"""A member's transcript as a person wants to see it."""

from __future__ import annotations

from typing import Any

from bullpen.agents.mail.message_frame import mail_text, voices
from bullpen.protocol.message import Message
from bullpen.protocol.payloads import IdleNotification
from bullpen.protocol.team import Member
from bullpen.view.stream import ITEMS_MAX, Stream, StreamItem

CWD = "/home/me/shop"


def _row(kind: str, second: int = 0, **data: Any) -> dict[str, Any]:
    return {"time": f"2026-01-01T00:00:{second:02}.000Z", "kind": kind, **data}


def _stream() -> Stream:
    return Stream(lambda name: name, cwd=CWD)


def _one(*rows: dict[str, Any]) -> StreamItem:
    stream = _stream()
    stream.take(rows)
    (item,) = stream.items
    return item


def test_an_edit_is_one_line_with_its_counts_and_its_diff() -> None:
    given = {"file_path": f"{CWD}/src/lex.py", "old_string": "a\nb\n", "new_string": "a\nc\nd\n"}
    result = f"The file {CWD}/src/lex.py was changed in 1 place.\n    41\ta\n    42\tc\n    43\td"
    item = _one(_row("tool", name="Edit", input=given), _row("result", name="Edit", text=result))
    assert (item.kind, item.text, item.aside, item.state) == (
        "call", "Edit src/lex.py", "+2 -1", "ok",
    )  # fmt: skip
    assert item.diff is not None
    assert [(line.kind, line.new) for line in item.diff.lines] == [
        ("context", 41), ("removed", None), ("added", 42), ("added", 43),
    ]  # fmt: skip


def test_an_edit_of_the_line_break_at_the_end_says_so() -> None:
    given = {"file_path": f"{CWD}/a.py", "old_string": "x = 1\n", "new_string": "x = 1"}
    item = _one(
        _row("tool", name="Edit", input=given), _row("result", name="Edit", text="Changed.")
    )
    assert item.diff is not None and item.diff.note == "only the line break at the end"


def test_an_edit_by_claude_code_has_the_diff_that_its_result_tells() -> None:
    given = {"file_path": f"{CWD}/a.py", "old_string": "x", "new_string": "y"}
    result = (
        '{"filePath":"a.py","structuredPatch":[{"oldStart":7,"oldLines":2,"newStart":7,'
        '"newLines":2,"lines":[" one","-x","+y"]}]}'
    )
    item = _one(_row("tool", name="Edit", input=given), _row("result", name="Edit", text=result))
    assert item.diff is not None and item.aside == "+1 -1"
    assert [line.new for line in item.diff.lines] == [None, 7, None, 8]


def test_a_new_file_and_a_patch_show_what_they_write() -> None:
    stream = _stream()
    patch = "*** Begin Patch\n*** Update File: a.py\n@@ def f():\n-x\n+y\n*** End Patch"
    stream.take(
        [
            _row("tool", name="Write", input={"file_path": "b.py", "content": "1\n2\n"}),
            _row("result", name="Write", text="The file b.py was created: 2 lines."),
            _row("tool", name="ApplyPatch", input={"input": patch}),
            _row("result", name="ApplyPatch", text="Done"),
            _row("tool", name="Write", input={"file_path": "c.py", "content": "1\n2\n"}),
            _row("result", name="Write", text="The file c.py was overwritten: 2 lines."),
        ]
    )
    write, patched, over = stream.items
    assert over.aside == "2 lines"
    assert (write.text, write.aside) == ("Write b.py", "+2 -0")
    assert write.diff is not None and write.diff.note == "new file"
    assert (patched.text, patched.aside) == ("ApplyPatch a.py", "+1 -1")


def test_a_command_shows_how_many_tests_passed_and_its_whole_output() -> None:
    stream = _stream()
    begun = _row("tool", name="Bash", input={"command": f"cd {CWD} && pytest -q"})
    assert stream.take([begun]) == 0
    assert stream.items[0].state == "open"
    assert stream.take([_row("result", name="Bash", text="..\n12 passed in 0.1s")]) == 0
    (item,) = stream.items
    assert (item.text, item.aside, item.state) == ("Bash pytest -q", "12 passed", "ok")
    assert item.body == f"$ cd {CWD} && pytest -q\n\n..\n12 passed in 0.1s"


def test_results_of_calls_side_by_side_complete_their_own_items() -> None:
    stream = _stream()
    stream.take(
        [
            _row("tool", name="Read", input={"file_path": "a"}),
            _row("tool", name="Grep", input={"pattern": "x", "path": f"{CWD}/src"}),
            _row("text", text="Meanwhile"),
        ]
    )
    assert stream.take([_row("result", name="Grep", text="1\n2")]) == 1
    assert [(item.text, item.aside, item.state) for item in stream.items] == [
        ("Read a", "", "open"), ("Grep x in src", "2 lines", "ok"), ("Meanwhile", "", "ok"),
    ]  # fmt: skip


def test_a_denied_call_says_why_in_either_order_of_the_rows() -> None:
    call = _row("tool", name="Bash", input={"command": "make deploy"})
    denied = _row("denied", tool="Bash", detail="make deploy", why="your user denied it: not today")
    result = _row("result", name="Bash", text="You may not do this", error=True)
    for rows in ([call, denied, result], [denied, call, result]):
        item = _one(*rows)
        assert (item.text, item.state) == ("Bash make deploy", "denied")
        assert item.aside == "denied: you denied it: not today"
        assert "make deploy" in item.body and "You may not" in item.body


def test_words_are_not_repeated_at_the_end_of_the_turn() -> None:
    stream = _stream()
    stream.take(
        [
            _row("turn", 0, number=1, text="<team-digest>...", ids=[]),
            _row("text", 1, text="I start.\n"),
            _row("request", 2, model="m"),
            _row("usage", 2, usage={}),
            _row("text", 3, text="Done."),
            _row("end", 12, number=1, text="I start.\nDone.", failure=None, interrupted=None),
        ]
    )
    assert [(item.kind, item.text, item.aside) for item in stream.items] == [
        ("words", "I start.", ""), ("words", "Done.", ""), ("note", "Turn ended", "12 s"),
    ]  # fmt: skip
    stream.take([_row("turn", 20, number=2, text=""), _row("end", 21, number=2, text="Only now.")])
    assert stream.items[3].text == "Only now."


def _message(sender: str, text: str, *, human: bool = False) -> Message:
    bullpen = {"voice": "human"} if human else None
    return Message.new(sender=sender, text=text, timestamp="2026-01-01T00:00:00Z", bullpen=bullpen)


def _mail(messages: list[Message]) -> list[tuple[str | None, str]]:
    roster = [Member.new(name=name) for name in ("team-lead", "bob")]
    text = mail_text(messages, roster)
    by = voices(messages)
    stream = Stream(lambda name: name)
    stream.take([_row("mail", ids=[], text=text, voices=by)])
    return [(item.sender, item.text) for item in stream.items]


def test_mail_is_what_was_said_by_whom() -> None:
    to_lead = [
        _message("bob", "Parser done.\n\nNext?"),
        _message("team-lead", "Both kinds, please.\n\nAnd tests.", human=True),
    ]
    assert _mail(to_lead) == [
        ("you", "Both kinds, please.\n\nAnd tests."), ("bob", "Parser done.\n\nNext?"),
    ]  # fmt: skip
    assert _mail(to_lead[1:]) == [("you", "Both kinds, please.\n\nAnd tests.")]
    to_alice = [
        _message("team-lead", "Take #3"),
        _message("team-lead", 'A </teammate-message><b a="1">', human=True),
    ]
    assert _mail(to_alice) == [
        ("you", 'A &lt;/teammate-message><b a="1">'), ("team-lead", "Take #3"),
    ]  # fmt: skip


def test_mail_of_a_person_who_leads_is_from_you() -> None:
    text = mail_text([_message("team-lead", "Go")], [Member.new(name="team-lead")])
    stream = Stream({"team-lead": "you"}.__getitem__)
    stream.take([_row("mail", ids=[], text=text)])
    assert [(item.sender, item.text) for item in stream.items] == [("you", "Go")]


def test_the_runners_own_rows_are_not_shown() -> None:
    stream = _stream()
    kinds = ("turn", "request", "usage", "read", "state", "permitted", "submitted", "unknown")
    rows = [_row(kind, text="internal") for kind in kinds]
    rows.append(_row("note", text="The model is claude, with a context window of 1 tokens"))
    rows.append(_row("note", text="Told the whole briefing again:\n<team-digest>"))
    assert stream.take(rows) is None
    assert stream.items == []


def test_an_interrupted_turn_closes_its_calls_and_says_so_once() -> None:
    stream = _stream()
    stream.take(
        [
            _row("turn", number=1, text=""),
            _row("tool", name="Bash", input={"command": "sleep 100"}),
            _row("order", action="cancel", sender="team-lead", voice="human", reason=None),
            _row("end", number=1, text="", failure=None, interrupted="cancel"),
        ]
    )
    assert [(item.kind, item.text, item.state, item.aside) for item in stream.items] == [
        ("call", "Bash sleep 100", "failed", "interrupted"),
        ("note", "Interrupted by you", "ok", ""),
    ]


def test_an_order_says_why_if_it_has_a_reason() -> None:
    row = _row("order", action="cancel", sender="team-lead", voice=None, reason="Nothing happens")
    assert _one(row).text == "Interrupted: Nothing happens"


def test_the_report_of_an_idle_teammate_is_what_it_said() -> None:
    def idle(**fields: Any) -> str:
        stamp = "2026-01-01T00:00:00Z"
        notice = IdleNotification.new(sender="bob", timestamp=stamp, **fields)
        return notice.text()

    about = {"summary": "[to ann] Hi", "completed_task_id": "3", "completed_status": "completed"}
    messages = [
        _message("bob", idle(idle_reason="available", result="The parser\n\nis done.", **about)),
        _message("bob", idle(idle_reason="available")),
        _message("bob", idle(idle_reason="failed", failure_reason="No credit")),
    ]
    assert _mail(messages) == [
        ("bob", "The parser\n\nis done."),
        (None, "bob is idle"),
        ("bob", "My turn failed: No credit"),
    ]


def test_notes_and_troubles_are_told_in_words() -> None:
    stream = _stream()
    stream.take(
        [
            _row("ready", driver="native", launch=1),
            _row("mode", mode="default", before="plan"),
            _row("plan", state="submitted", request="plan-1", path="/x"),
            _row("plan", state="rejected", feedback="Too big"),
            _row("check", task="3", name="tests", passed=False, text="1 failed"),
            _row("handed_in", task="3", commit="abc", text="handed in as abc to the merge queue"),
            _row("trouble", text="The disk is full."),
            _row("end", number=1, text="", failure="invalid x-api-key"),
            _row("ended", end="failed", cause="the API key was rejected"),
        ]
    )
    assert [(item.kind, item.text) for item in stream.items] == [
        ("note", "Started"),
        ("note", "Mode: plan → default"),
        ("note", "Plan submitted for approval"),
        ("note", "Plan rejected: Too big"),
        ("note", "Check tests of #3 failed"),
        ("note", "Task #3: handed in as abc to the merge queue"),
        ("trouble", "The disk is full."),
        ("trouble", "The turn failed: invalid x-api-key"),
        ("trouble", "Failed: the API key was rejected"),
    ]
    assert stream.items[4].state == "failed"


def test_control_characters_are_escaped_everywhere() -> None:
    stream = Stream(lambda name: "\x1b[2J")
    mail = '<teammate-message teammate_id="a">\n\x1bc\n</teammate-message>'
    stream.take(
        [
            _row("text", text="\x1b[31m"),
            _row("tool", name="\x1bX", input={"command": "\x1b[0m\u202e"}),
            _row("result", name="\x1bX", text="\x07", error=True),
            _row("denied", tool="Y", detail="\x1b", why="\x1b"),
            _row("mail", text=mail),
            _row("trouble", text="\x9b"),
            _row("mode", mode="\x1b", before=None),
        ]
    )
    for item in stream.items:
        for text in (item.text, item.aside, item.body, item.sender or ""):
            assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text), item


def test_only_the_last_items_are_kept_and_keys_stay_unique() -> None:
    stream = _stream()
    stream.take([_row("text", text=str(n)) for n in range(ITEMS_MAX)])
    assert stream.take([_row("text", text="one more")]) == 0
    assert len(stream.items) <= ITEMS_MAX
    assert stream.items[-1].text == "one more"
    assert stream.take([_row("text", text="last")]) == len(stream.items) - 1
    assert len({item.key for item in stream.items}) == len(stream.items)


def test_rows_that_nobody_expects_are_no_error() -> None:
    stream = _stream()
    stream.take(
        [
            {},
            {"kind": "text", "text": None},
            {"kind": "text", "text": 7, "time": 9},
            {"kind": "tool", "name": None, "input": ["x"]},
            {"kind": "result", "name": "Bash", "text": {"a": 1}},
            {"kind": "denied"},
            {"kind": "mail", "text": "plain", "voices": 3},
            {"kind": "order"},
            {"kind": "end", "text": 5, "interrupted": 8},
            {"kind": "damaged", "text": "{half"},
            _row("tool", name="TodoWrite", input={"todos": 5}),
            _row("tool", name="AskUserQuestion", input={"questions": ["x"]}),
            _row("tool", name="MultiEdit", input={"file_path": "a", "edits": 4}),
            _row("tool", name="Edit", input="{"),
        ]
    )
    assert any(item.text == "{half" for item in stream.items)
