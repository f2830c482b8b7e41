"""Hidden marks: only this home makes them, and only in texts of its own account do they count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bullpen.team.forge.markers import Mark, find, has_mark, marked, marker

KEY = b"key of this home"
MARK = Mark("forge.test/o/r", "crew", "1", "reply", 3)
BODY = marked("Done.", MARK, KEY)


def test_a_marked_text_ends_with_a_hidden_line_and_is_known_again() -> None:
    assert BODY.startswith("Done.\n\n<!-- bullpen:crew/1/reply/3:")
    assert has_mark(BODY, MARK, KEY)
    assert has_mark(BODY.replace("\n", "\r\n") + "\r\n", MARK, KEY)


@pytest.mark.parametrize(
    "other",
    [
        replace(MARK, repository="forge.test/o/fork"),
        replace(MARK, team="crew2"),
        replace(MARK, task="2"),
        replace(MARK, kind="answer"),
        replace(MARK, n=4),
    ],
    ids=["repository", "team", "task", "kind", "number"],
)
def test_a_mark_is_of_one_write_only(other: Mark) -> None:
    assert not has_mark(BODY, other, KEY)
    assert not has_mark(marked("Done.", other, KEY), MARK, KEY)


def test_another_key_makes_other_marks() -> None:
    assert not has_mark(marked("Done.", MARK, b"another"), MARK, KEY)
    assert not has_mark("<!-- bullpen:crew/1/reply/3:" + "0" * 32 + " -->", MARK, KEY)


def test_a_mark_counts_at_the_end_only() -> None:
    assert not has_mark(f"{marker(MARK, KEY)}\nand more", MARK, KEY)
    assert not has_mark("", MARK, KEY)


def test_a_copied_mark_of_another_author_is_nothing() -> None:
    texts = [("eve", BODY, 1), ("crew-bot2", BODY, 2), ("Crew-Bot", "Done.", 3)]
    assert find(texts, MARK, KEY, account="crew-bot") is None
    assert find([*texts, ("Crew-Bot", BODY, 4)], MARK, KEY, account="crew-bot") == 4


@pytest.mark.parametrize("name", ["a-->b", "a--!>", "a/b/c", "ü", "a" * 300, "", "a b\nc", "%2D"])
def test_whatever_a_team_and_a_task_are_called_the_mark_stays_one_comment(name: str) -> None:
    mark = replace(MARK, team=name, task=name)
    line = marker(mark, KEY)
    assert line.count("--") == 2
    assert "\n" not in line
    assert has_mark(marked("x", mark, KEY), mark, KEY)
    assert not has_mark(marked("x", mark, KEY), replace(mark, team=name + "x"), KEY)
