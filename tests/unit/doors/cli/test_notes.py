"""`bullpen notes`: written over what was read, and shown with authors and history."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from bullpen.doors.cli.options import completion


def test_a_note_is_written_listed_and_shown(
    ok: Callable[..., str], as_json: Callable[..., Any], team: str
) -> None:
    assert ok("notes", "list").startswith("No notes yet.")
    assert ok("notes", "write", "api", "GET /") == "Wrote note api, version 1.\n"
    ok("notes", "write", "plan", "# Plan", "--as", "alice")
    heads = as_json("notes", "list")["notes"]
    assert [(each["name"], each["author"]) for each in heads] == [
        ("plan", "alice"),
        ("api", "team-lead"),
    ]
    shown = as_json("notes", "show", "plan")
    assert (shown["text"], shown["version"]) == ("# Plan\n", 1)
    assert ok("notes", "show", "plan").splitlines()[-1] == "# Plan"
    assert [each["name"] for each in as_json("team", "show")["notes"]] == ["plan", "api"]


def test_a_write_over_another_version_is_refused_and_says_how_to_see_the_change(
    run: Callable[..., Any], ok: Callable[..., str], as_json: Callable[..., Any], team: str
) -> None:
    ok("notes", "write", "plan", "One")
    ok("notes", "write", "plan", "Two", "--over", "1", "--as", "bob")
    refused = run("notes", "write", "plan", "Mine", "--over", "1")
    assert refused.exit_code != 0
    assert "written by bob meanwhile" in refused.stderr
    assert "bullpen notes diff plan --from 1" in refused.stderr
    assert "-One\n+Two" in ok("notes", "diff", "plan", "--from", "1")
    found = as_json("notes", "diff", "plan")
    assert (found["from"], found["to"]) == (1, 2)
    history = as_json("notes", "history", "plan")["versions"]
    assert [(each["version"], each["author"]) for each in history] == [
        (1, "team-lead"),
        (2, "bob"),
    ]
    assert ok("notes", "show", "plan", "--version", "1").endswith("\nOne\n")


def test_an_empty_text_deletes_a_note(
    ok: Callable[..., str], run: Callable[..., Any], team: str
) -> None:
    ok("notes", "write", "idea", "x")
    assert ok("notes", "write", "idea", "", "--over", "1") == "Deleted note idea, version 2.\n"
    assert "no note 'idea'" in run("notes", "show", "idea").stderr
    assert "deleted" in ok("notes", "history", "idea")


def test_the_names_of_notes_are_completed(ok: Callable[..., str], team: str) -> None:
    ok("notes", "write", "plan", "x", "--as", "alice")
    typing: Any = SimpleNamespace(params={}, parent=None)
    assert completion.note_names(typing) == [("plan", "by alice")]
