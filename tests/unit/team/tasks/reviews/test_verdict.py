"""What a reviewer is told, and which texts are a verdict."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.protocol.task import Check
from bullpen.team.tasks.reviews.verdict import (
    COMMENTS_MAX,
    TEXT_CHARS_MAX,
    NoVerdict,
    ReviewMatter,
    prompt,
    verdict_in,
)
from support.rows import each_row

TOKEN = "review-0123456789abcdef"


def said(verdict: object = "approve", **more: object) -> str:
    return f"VERDICT {TOKEN}\n{json.dumps({'verdict': verdict, **more})}"


def test_a_verdict_has_a_summary_and_comments_with_their_places() -> None:
    comments = [{"file": "a.py", "line": 3, "text": "No"}, {"text": "Why?"}, "Plain"]
    found = verdict_in(f"I read it.\n\n{said('change', summary='Bad', comments=comments)}", TOKEN)
    assert (found.verdict, found.summary) == ("change", "Bad")
    assert [each.words for each in found.comments] == ["a.py:3: No", "Why?", "Plain"]


@pytest.mark.parametrize(
    "text",
    [
        f'**VERDICT {TOKEN}**\n```json\n{{"verdict": "veto", "summary": "x"}}\n```',
        f'  VERDICT {TOKEN}  \n\n{{"verdict": "veto", "summary": "x"}}\n',
    ],
)
def test_marks_and_fences_around_a_verdict_do_not_matter(text: str) -> None:
    assert verdict_in(text, TOKEN).verdict == "veto"


@each_row(
    ("text", "why"),
    [
        ("", "no line"),
        ("I approve this.", "no line"),
        (said().replace(TOKEN, "review-ffffffffffffffff"), "no line"),
        (f"{said()}\n{said()}", "2 lines"),
        (f"{said()}\nThank you!", "one JSON object"),
        (f"VERDICT {TOKEN}", "one JSON object"),
        (f"VERDICT {TOKEN}\n[]", "not a JSON object"),
        (f'VERDICT {TOKEN}\n{{"verdict": "change", "verdict": "approve"}}', "twice"),
        (said("Approve"), "none of"),
        (said(None), "none of"),
        (said(["approve"]), "none of"),
        (said("change"), "needs a summary or comments"),
        (said("approve", comments={"text": "x"}), "a list"),
        (said("approve", comments=[{"file": "a"}]), "needs a `text`"),
        (said("approve", summary=3), "a text"),
        (f"VERDICT {TOKEN}\n{'[' * 100_000}", "one JSON object"),
    ],
)
def test_anything_else_is_no_verdict(text: str, why: str) -> None:
    with pytest.raises(NoVerdict, match=why):
        verdict_in(text, TOKEN)


@given(st.text())
def test_no_text_without_the_token_is_a_verdict(text: str) -> None:
    with pytest.raises(NoVerdict):
        verdict_in(text, TOKEN)


def test_long_verdicts_are_cut() -> None:
    comments = [{"text": "x" * 9_000}] * 80
    found = verdict_in(said("change", summary="\ud800", comments=comments), TOKEN)
    assert len(found.comments) == COMMENTS_MAX
    assert len(found.comments[0].text) < TEXT_CHARS_MAX + 20
    assert found.summary == "?"


@given(st.text())
def test_no_part_of_a_difference_begins_a_line_of_the_prompt(text: str) -> None:
    matter = ReviewMatter("t", "d", None, text, checks=[Check.new(name=text, kind="report")])
    told = prompt(matter, TOKEN)
    start = told.index(f"BEGIN {TOKEN}: the difference")
    inside = told[start:].splitlines()[1 : 1 + len(text.splitlines())]
    assert all(line.startswith("| ") for line in inside)


def test_the_rubric_is_outside_of_the_frames() -> None:
    told = prompt(ReviewMatter("t", "d", "Is it fast?", "x"), TOKEN)
    assert told.index("Is it fast?") < told.index(f"BEGIN {TOKEN}: the task")
