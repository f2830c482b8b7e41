"""The rows of the lead's transcript as what the client is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bullpen.doors.acp.lead_rows import LeadRows
from bullpen.doors.acp.updates import CallTold, FileChange, Said, Update


def told(
    *rows: dict[str, Any], replay: bool = False, names: Mapping[str, str] | None = None
) -> list[Update]:
    return list(LeadRows(tool_name=names or {}, cwd="/p", replay=replay).take(rows))


def test_words_are_told_once_although_the_end_of_the_turn_repeats_them() -> None:
    assert told(
        {"kind": "turn"}, {"kind": "text", "text": "Hello."}, {"kind": "end", "text": "Hello."}
    ) == [Said("Hello.")]


def test_words_that_only_the_end_of_a_turn_has_are_told() -> None:
    assert told({"kind": "turn"}, {"kind": "end", "text": "Hello."}) == [Said("Hello.")]


def test_a_call_is_told_when_it_begins_and_when_it_ends() -> None:
    call = {"kind": "tool", "name": "Bash", "input": {"command": "ls"}}
    begun, ended = told(call, {"kind": "result", "name": "Bash", "text": "a", "error": False})
    assert isinstance(begun, CallTold)
    assert (begun.begins, begun.kind, begun.status) == (True, "execute", "in_progress")
    assert (begun.title, begun.tool, begun.input) == ("Bash ls", "Bash", {"command": "ls"})
    assert ended == CallTold(begun.id, False, "completed", text="a")


def test_a_denied_call_has_failed_and_says_why() -> None:
    call = {"kind": "tool", "name": "Bash", "input": {"command": "ls"}}
    ended = told(call, {"kind": "denied", "tool": "Bash", "why": "not now"})[-1]
    assert ended == CallTold("call-1", False, "failed", text="Denied: not now")


def test_a_call_without_a_result_ends_with_its_turn() -> None:
    call = {"kind": "tool", "name": "Bash", "input": {"command": "ls"}}
    ended = told(call, {"kind": "end", "text": ""})[-1]
    assert isinstance(ended, CallTold)
    assert ended.status == "failed"


def test_an_edit_is_told_as_a_change_of_its_file() -> None:
    given = {"file_path": "/p/a", "old_string": "x", "new_string": "y"}
    (call,) = told({"kind": "tool", "name": "Edit", "input": given})
    assert isinstance(call, CallTold)
    assert call.change == FileChange("/p/a", "x", "y")


def test_only_a_replay_tells_the_words_of_the_person() -> None:
    mail = {"kind": "mail", "text": "Your user says:\nMake it green."}
    assert told(mail) == []
    assert told(mail, replay=True) == [Said("Make it green.", "person")]


def test_a_message_of_a_teammate_does_not_pass_for_the_person_s_words() -> None:
    frame = '<teammate-message teammate_id="bob">\nYour user says:\nDrop it.\n</teammate-message>'
    assert told({"kind": "mail", "text": frame}, replay=True) == []


def test_a_tool_of_the_client_s_server_has_the_client_s_name_for_it() -> None:
    call = {"kind": "tool", "name": "mcp__client-bullpen__TaskCreate", "input": {}}
    (begun,) = told(call, names={"client-bullpen": "bullpen"})
    assert isinstance(begun, CallTold)
    assert begun.tool == "mcp__bullpen__TaskCreate"


def test_a_request_finds_its_open_call_once() -> None:
    rows = LeadRows(tool_name={}, cwd="/p")
    list(rows.take([{"kind": "tool", "name": "Bash", "input": {"command": "ls"}}]))
    assert rows.open_call("Bash", {"command": "rm"}) is None
    assert rows.open_call("Bash", {"command": "ls"}) == "call-1"
    assert rows.open_call("Bash", {"command": "ls"}) is None


def test_a_failed_turn_is_told_as_a_thought() -> None:
    failed = {"kind": "end", "text": "", "failure": "overloaded"}
    said = told({"kind": "text", "text": "First"}, failed)
    assert said == [Said("First"), Said("The turn of the lead failed: overloaded", "team")]


def test_a_turn_that_fails_before_an_answer_says_nothing_that_looks_like_one() -> None:
    assert told({"kind": "end", "text": "", "failure": "overloaded"}) == []
