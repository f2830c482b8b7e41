"""What a posted review says, where its comments stand, and how it is known again."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from bullpen.agents.system.secrets import Redactor
from bullpen.protocol.record.review import VERDICTS, Comment, Verdict
from bullpen.protocol.task import Check
from bullpen.team.forge.bodies import BODY_MAX
from bullpen.team.forge.markers import has_mark, marker
from bullpen.team.forge.review_bodies import (
    LINES_MAX,
    ReviewOf,
    lines_shown,
    placed,
    posted,
    review_text,
)
from bullpen.team.forge.shown import Person, Review
from bullpen.team.tasks.reviews.verdict import Words, verdict_in
from support.rows import each_row

from .forge_teams import ACCOUNT, HEAD, REPOSITORY
from .hostile_words import HOSTILE, Rendered, acted_on

KEY = b"key of this home"
CHECK = Check.new(name="review", kind="review", by="codex", model="gpt-5")
WHICH = ReviewOf(REPOSITORY, 7, HEAD, CHECK)
SHOWN = {"src/a.py": frozenset({10, 11, 12}), "b.txt": frozenset({1})}


def unchanged(text: str) -> str:
    return text


def words(
    verdict: Verdict, summary: str = "", *comments: tuple[str | None, int | None, str]
) -> Words:
    made = [Comment.new(file=file, line=line, text=text) for file, line, text in comments]
    return Words(verdict, summary, tuple(made))


def body_of(said: Words, which: ReviewOf = WHICH) -> str:
    return review_text(said, which, KEY, shown=SHOWN, clean=unchanged).body


def test_it_says_that_an_agent_made_it_of_which_commit_and_what_it_says() -> None:
    made = review_text(
        words("change", "It adds wrongly.", ("src/a.py", 11, "This subtracts.")),
        WHICH, KEY, shown=SHOWN, clean=unchanged,
    )  # fmt: skip
    first, says, summary, _ = made.body.split("\n\n")
    assert first.startswith(f"An agent (codex with gpt-5) reviewed commit {HEAD}.")
    assert "not the opinion of a person, and it is no approval" in first
    assert (says, summary) == ("**It asks for changes.**", "> It adds wrongly.")
    (remark,) = made.comments
    assert (remark.path, remark.line) == ("src/a.py", 11)
    assert remark.body.startswith("An agent that reviewed this says:\n\n> This subtracts.\n\n<!--")


def test_comments_that_no_line_of_the_difference_has_are_in_the_text() -> None:
    said = words(
        "change", "", ("src/a.py", 99, "far off"), ("c.txt", 1, "elsewhere"), (None, None, "all"),
        ("b.txt", None, "the file"), ("./b.txt", 1, "a line"),
    )  # fmt: skip
    made = review_text(said, WHICH, KEY, shown=SHOWN, clean=unchanged)
    assert [(each.path, each.line) for each in made.comments] == [("b.txt", 1)]
    parts = made.body.split("\n\n")
    assert parts[2:-1] == [
        "### Comments", "In src/a.py, line 99:", "> far off", "In c.txt, line 1:", "> elsewhere",
        "On the change:", "> all", "In b.txt:", "> the file",
    ]  # fmt: skip


def test_of_very_many_comments_only_some_stand_on_lines_and_none_is_lost() -> None:
    many = [("b.txt", 1, f"remark {number}") for number in range(LINES_MAX + 5)]
    made = review_text(words("change", "", *many), WHICH, KEY, shown=SHOWN, clean=unchanged)
    assert len(made.comments) == LINES_MAX
    assert made.body.count("> remark") == 5


@each_row("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("place", ["summary", "comment", "file", "model", "on a line"])
def test_a_forge_acts_on_nothing_in_what_a_reviewer_wrote(place: str, text: str) -> None:
    line = place == "on a line"
    # A verdict has no halves of characters: reading it replaces them.
    given = text.encode(errors="replace").decode().strip() or "-"
    comment = Comment.new(
        text=given if place == "comment" or line else "x",
        file="b.txt" if line else given if place == "file" else None,
        line=1 if line else None,
    )
    which = WHICH
    if place == "model":
        which = replace(WHICH, check=CHECK.evolve(model=given))
    said = Words("change", text if place == "summary" else "", (comment,))
    made = review_text(said, which, KEY, shown=SHOWN, clean=unchanged)
    mark = which.mark(None if line else "change")
    body = made.comments[0].body if line else made.body
    assert has_mark(body, mark, KEY)
    shown = Rendered(body)
    assert shown.html == 1
    assert shown.foreign == set()
    assert [heading for heading in shown.headings if heading != "Comments"] == []
    assert acted_on(body.removesuffix(marker(mark, KEY))) == []
    assert acted_on(shown.shown) == []
    assert len(body.encode()) <= BODY_MAX


def test_a_verdict_with_the_longest_texts_of_all_fits() -> None:
    row = {"file": "x" * 3_000, "line": 3, "text": "*<@a>" * 1_000}
    answer = {"verdict": "veto", "summary": "_#1 " * 2_000, "comments": [row] * 80}
    said = verdict_in(f"VERDICT t\n{json.dumps(answer)}", "t")
    shown = {row["file"]: frozenset({3})}
    for lines in (shown, {}):
        made = review_text(said, WHICH, KEY, shown=lines, clean=unchanged)  # type: ignore[arg-type]
        assert len(made.body.encode()) <= BODY_MAX
        assert has_mark(made.body, WHICH.mark("veto"), KEY)
        assert all(len(each.body.encode()) <= BODY_MAX for each in made.comments)


@pytest.mark.parametrize(
    "secret", ["ghp_" + "aB3" * 12, "p@ss_w0rd*<x>#1y", "sk-ant-api03-a_b-" + "x9" * 20]
)
def test_no_secret_is_in_it_whatever_a_forge_needs_escaped(secret: str) -> None:
    redactor = Redactor({"SHOP_PASSWORD": secret})
    said = words(
        "change", f"I found {secret}.", ("b.txt", 1, f"this {secret}"), (secret, 2, f"x {secret}")
    )
    made = review_text(said, WHICH, KEY, shown=SHOWN, clean=redactor.text)
    for body in (made.body, made.comments[0].body):
        plain = re.sub(r"[\\\u200b]|&\w+;", "", body)
        assert re.sub(r"[\\\u200b<>]|&\w+;", "", secret) not in plain
        assert secret[-12:] not in body
        assert "secret" in body


# Known again


def shown_as(body: str, login: str = ACCOUNT) -> Review:
    return Review("1", Person(login, trusted=True), "commented", body, HEAD, "https://x/1", "1")


@pytest.mark.parametrize("verdict", VERDICTS)
def test_a_posted_review_is_known_again_with_its_verdict(verdict: Verdict) -> None:
    review = shown_as(body_of(words(verdict, "words")))
    assert posted([review], WHICH, KEY, account=ACCOUNT.upper()) == (review, verdict)


@pytest.mark.parametrize(
    "other",
    [
        replace(WHICH, head="b" * 40),
        replace(WHICH, number=8),
        replace(WHICH, repository="git.example/acme/other"),
        replace(WHICH, check=CHECK.evolve(model="gpt-6")),
        replace(WHICH, check=CHECK.evolve(by="claude")),
        replace(WHICH, check=CHECK.evolve(rubric="Is every input checked?")),
    ],
)
def test_another_review_is_not_the_same(other: ReviewOf) -> None:
    review = shown_as(body_of(words("approve")))
    assert posted([review], other, KEY, account=ACCOUNT) is None


def test_a_copy_of_the_mark_by_others_or_of_another_home_is_nothing() -> None:
    body = body_of(words("approve"))
    assert posted([shown_as(body, "mallory")], WHICH, KEY, account=ACCOUNT) is None
    assert posted([shown_as(body)], WHICH, b"another key", account=ACCOUNT) is None
    assert posted([shown_as(f"{body}\nmore")], WHICH, KEY, account=ACCOUNT) is None


# Lines


DIFFERENCE = """\
diff --git a/src/a b.py b/src/a b.py
--- a/src/a b.py\t
+++ b/src/a b.py\t
@@ -1,3 +1,4 @@ def a():
 one
-two
+++ b/not/a/file
+@@ -1 +1 @@
 three
@@ -20 +21 @@
-x
+y
\\ No newline at end of file
diff --git a/gone.txt b/gone.txt
--- a/gone.txt
+++ /dev/null
@@ -1,2 +0,0 @@
-a
---- b
diff --git "a/q\\"uote" "b/q\\"uote"
--- "a/q\\"uote"
+++ "b/q\\"uote"
@@ -1 +1 @@
-a
+b
diff --git a/old.txt b/new.txt
similarity index 90%
rename from old.txt
rename to new.txt
--- a/old.txt
+++ b/new.txt
@@ -0,0 +5,2 @@
+a
+
"""


def test_the_lines_that_a_difference_shows_are_those_of_its_hunks() -> None:
    assert lines_shown(DIFFERENCE) == {
        "src/a b.py": frozenset({1, 2, 3, 4, 21}),
        "new.txt": frozenset({5, 6}),
    }
    assert lines_shown("") == {}


def test_a_line_of_another_file_or_of_none_is_no_place() -> None:
    def at(file: str | None, line: int | None) -> tuple[str, int] | None:
        return placed(Comment.new(text="x", file=file, line=line), SHOWN)

    assert at("src/a.py", 10) == ("src/a.py", 10)
    assert at("./src//a.py", 10) == ("src/a.py", 10)
    for file, line in (
        (None, 1),
        ("b.txt", None),
        ("b.txt", 2),
        ("/src/a.py", 10),
        ("..", 1),
        ("a\0", 1),
    ):
        assert at(file, line) is None
