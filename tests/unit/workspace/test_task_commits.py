"""What the commits of Bullpen say, whatever agents and tasks are called."""

from __future__ import annotations

import pytest

from bullpen.errors import Invalid
from bullpen.workspace.git.task_commits import (
    address_of,
    has_trailers,
    message,
    parse_author,
    trailers,
)
from support.rows import each_row


def test_a_commit_names_task_and_agent_in_trailers_and_links_to_no_issue() -> None:
    assert message("Write note number 8", "11", "worker-2") == (
        "Write note number 8\n\n"
        "Bullpen-Task: 11\n"
        "Bullpen-Agent: worker-2\n"
        "Co-authored-by: worker-2 <worker-2@agents.bullpen.invalid>\n"
    )
    assert "#" not in message("", "11", "worker-2", merge=True)


@each_row(
    "name",
    [
        "a\nCo-authored-by: Una <una@example.org>",
        "a\r\nBullpen-Task: 9",
        "a\u2028Bullpen-Task: 9",
        "Una <una@example.org>",
        "<<>>",
        "\u202egro.elpmaxe",
        "\ud800",
        " ",
        "n" * 5_000,
    ],
)
def test_no_name_adds_a_line_or_an_address(name: str) -> None:
    text = message("work", "1", name)
    lines = text.splitlines()
    assert [line.partition(":")[0] for line in lines[2:]] == [
        "Bullpen-Task",
        "Bullpen-Agent",
        "Co-authored-by",
    ]
    assert text.count("<") == text.count(">") == 1
    assert lines[-1].endswith("@agents.bullpen.invalid>")
    assert len(address_of(name).partition("@")[0]) <= 64
    text.encode("utf-8")


def test_no_subject_adds_a_line() -> None:
    text = message("x\n\nBullpen-Agent: eve\u2029y\ud800", "1\nA: b", "ann")
    assert text.splitlines()[0] == "x Bullpen-Agent: eve y"
    assert len(text.splitlines()) == 5


def test_only_the_trailers_of_this_task_and_agent_at_the_end_count() -> None:
    text = message("work", "1", "ann")
    assert has_trailers(text, "ann", "1")
    assert not has_trailers(text, "bob", "1")
    assert not has_trailers(text, "ann", "11")
    assert not has_trailers(f"{text}\nBullpen-Agent: eve\n", "ann", "1")
    assert not has_trailers(f"x{trailers('ann', '1')}", "ann", "1")


def test_an_author_is_a_name_and_one_address() -> None:
    assert parse_author(" Una User <una@example.org>") == ("Una User", "una@example.org")
    for wrong in (
        "una@example.org",
        "<una@example.org>",
        "Una <una>",
        "Una <a@b> <c@d>",
        "Una <a@b>\nX: y",
        "Una\x00 <a@b>",
        "",
    ):
        with pytest.raises(Invalid):
            parse_author(wrong)
