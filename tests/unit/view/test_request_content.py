"""What a person is shown before answering: exactly what is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bullpen.protocol.request import Request
from bullpen.view.calls.request_content import action
from bullpen.view.news import asked_for


def request(kind: str, **subject: Any) -> Request:
    return Request.new(id="r-1", kind=kind, sender="ann", to="lead", created_ms=1, subject=subject)


def shown(asked: Request, cwd: Path) -> list[str]:
    return [cell.text for cell in action(asked, cwd=str(cwd))]


def call(tool: str, **given: Any) -> Request:
    return request("permission", toolName=tool, input=given)


def test_several_edits_are_shown_as_one_difference(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    edits = [
        {"old_string": "one", "new_string": "1"},
        {"old_string": "two", "new_string": "2"},
    ]
    lines = shown(call("MultiEdit", file_path="a", edits=edits), tmp_path)
    assert lines[0] == "a (2 edits)"
    assert {"-one", "-two", "+1", "+2"} <= set(lines)
    (tmp_path / "a").write_text("two\n")
    lines = shown(call("MultiEdit", file_path="a", edits=edits), tmp_path)
    assert "not in it now" in lines[0] and {"-one", "+1", "-two", "+2"} <= set(lines)


def test_the_deletion_of_a_file_is_called_that(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    asked = call("Edit", file_path="a", old_string="one\n", new_string="", delete=True)
    assert shown(asked, tmp_path)[0] == "a (delete the file)"
    assert "-one" in shown(asked, tmp_path)


def test_questions_are_shown_with_numbered_options(tmp_path: Path) -> None:
    colour = {
        "question": "Which colour?",
        "options": [{"label": "Red", "description": "as before"}, {"label": "Blue"}],
    }
    asked = request("question", questions=[colour, {"question": "Why?"}])
    assert shown(asked, tmp_path) == ["Which colour?", "  1. Red: as before", "  2. Blue", "Why?"]
    assert asked_for(asked) == "question: Which colour? / Why?"
