"""What is typed into the input line: who gets it, which command it is, what it may become."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.doors.tui.prompt.commands import COMMANDS, Typed, completions, read_typed, words_of
from bullpen.errors import Invalid
from support.rows import each_row

NAMES = ["team-lead", "alice", "alina"]


@each_row(
    ("text", "typed"),
    [
        ("Hello there", Typed("Hello there")),
        ("@alice Hello", Typed("Hello", to="alice")),
        ("@alice: Hello", Typed("Hello", to="alice")),
        ("@alice\nHello\nthere", Typed("Hello\nthere", to="alice")),
        ("@lead Hello", Typed("Hello", to="team-lead")),
        ("@team Hello", Typed("Hello", to="@team")),
        ("@src/lex.py is wrong", Typed("@src/lex.py is wrong")),
        ("/etc/hosts is wrong", Typed("/etc/hosts is wrong")),
        ("/", Typed("/")),
        ("/task Write it\nall", Typed("Write it\nall", command="task")),
        ("/finish", Typed("", command="finish")),
        ("/exit", Typed("", command="quit")),
        ("  keep  two spaces ", Typed("keep  two spaces")),
    ],
)
def test_who_gets_it_and_what_it_is(text: str, typed: Typed) -> None:
    assert read_typed(text, NAMES) == typed


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("/spwan x", "/spawn"),
        ("@alise x", "alice"),
        ("/tasks", "To see the tasks, press ctrl+t. To add one: /task TEXT"),
        ("/zzz", "Type / to see all"),
        ("@zzz", "list"),
    ],
)
def test_what_is_not_there_says_what_may_be_meant(text: str, hint: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_typed(text, NAMES)
    assert hint in (refused.value.remedy or "")


def test_the_last_word_of_a_command_may_be_long() -> None:
    assert words_of("spawn", "dora Write the  docs") == ["dora", "Write the  docs"]
    assert words_of("task", "Write it all") == ["Write it all"]
    assert words_of("stop", "") == []
    with pytest.raises(Invalid, match="needs more words"):
        words_of("assign", "3")


def test_every_command_is_offered_and_found_by_a_part_of_its_name() -> None:
    assert [each.text.strip("/ ") for each in completions("/", NAMES)] == [
        command.name for command in COMMANDS
    ]
    assert [each.text for each in completions("/ri", NAMES)] == []
    assert [each.text for each in completions("/upt", NAMES)] == ["/interrupt "]


@each_row(
    ("text", "becomes"),
    [
        ("@al", ["@alice ", "@alina "]),
        ("@t", ["@team "]),
        ("@alice", []),
        ("/stop a", ["/stop alice", "/stop alina"]),
        ("/mode p", ["/mode plan "]),
        ("/mode plan le", ["/mode plan lead"]),
        ("/assign 3 alin", ["/assign 3 alina"]),
        ("/task al", []),
        ("Hello @al", []),
        ("@al\n", []),
    ],
)
def test_names_and_modes_are_completed_where_they_belong(text: str, becomes: list[str]) -> None:
    assert [each.text for each in completions(text, NAMES)] == becomes


def test_the_page_describes_every_command() -> None:
    page = Path(__file__).parents[4] / "docs" / "howto" / "watch-in-a-terminal.md"
    text = page.read_text("utf-8")
    assert [each.name for each in COMMANDS if f"`/{each.name}" not in text] == []
