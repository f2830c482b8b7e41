"""When work is reviewed, when it passes, and when a person is asked."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.record.review import REVIEW_TOOL, Review, Verdict
from bullpen.protocol.request import Request
from bullpen.protocol.task import Check, Task
from bullpen.team.tasks.reviews import rules
from bullpen.team.tasks.reviews.rules import asked_of, digest_of, next_step, same_as_author
from support.rows import each_row

CHECK = Check.new(name="review", kind="review", by="codex", rounds=2)


def review(verdict: Verdict, work: str = "one", at_ms: int = 1, **more: object) -> Review:
    fields = {"check": CHECK.name, "asked": asked_of(CHECK), "by": "codex", "attempt": 1, **more}
    return Review.new(verdict=verdict, work=work, at_ms=at_ms, summary="words", **fields)


def task(*reviews: Review) -> Task:
    rows = [each.raw for each in reviews]
    return Task.new(id="1", subject="s", description="").with_facts(reviews=rows)


def request(state: str, work: str = "one", **more: object) -> Request:
    given = rules.request_input(task(), CHECK, work, "why", "git diff")
    fields = {
        "state": state,
        "approver": "human",
        "voice": "human",
        "created_ms": 10,
        "answered_ms": 20,
        **more,
    }
    subject = {"toolName": REVIEW_TOOL, "input": dict(given)}
    return Request.new(
        id="r1", kind="permission", sender="ann", to="team-lead", subject=subject, **fields
    )


@each_row(
    ("reviews", "act"),
    [
        ([], "review"),
        ([review("approve")], "pass"),
        ([review("approve", "two")], "review"),
        ([review("change")], "fail"),
        ([review("change", "two")], "review"),
        ([review("change", "two"), review("change", "three")], "ask"),
        ([review("change", "two"), review("change")], "ask"),
        ([review("change", "two"), review("change", "three"), review("approve")], "pass"),
        ([review("veto", "two")], "ask"),
        ([review("none")], "review"),
        ([review("none"), review("none", "two")], "review"),
        ([review("none"), review("none"), review("none")], "ask"),
        ([review("none"), review("none"), review("change", "two"), review("none")], "review"),
        ([review("approve", asked="another rubric")], "review"),
        ([review("approve", check="another check")], "review"),
    ],
)
def test_what_happens_next_depends_on_the_reviews_so_far(
    reviews: Sequence[Review], act: str
) -> None:
    assert next_step(task(*reviews), CHECK, "one", []).act == act


@each_row(
    ("asked", "act"),
    [
        (request("pending"), "wait"),
        (request("pending", "two"), "wait"),
        (request("approved"), "pass"),
        (request("approved", "two"), "ask"),
        (request("approved", voice="agent"), "ask"),
        (request("approved", approver="lead"), "ask"),
        (request("approved", answer={"updatedInput": {}}), "ask"),
        (request("denied"), "fail"),
        (request("denied", "two"), "review"),
        (request("expired"), "ask"),
    ],
)
def test_only_a_person_decides_in_place_of_a_reviewer(asked: Request, act: str) -> None:
    before = [review("change", "two", 1), review("change", "three", 2)]
    assert next_step(task(*before), CHECK, "one", [asked]).act == act


def test_a_request_about_another_rubric_decides_nothing() -> None:
    other = CHECK.evolve(rubric="Is it fast?")
    assert next_step(task(), other, "one", [request("approved")]).act == "review"


@pytest.mark.parametrize(
    ("reviewer", "author", "refused"),
    [
        ({"by": "codex"}, {"driver": "claude"}, False),
        ({"by": "codex"}, {"driver": "codex"}, True),
        ({"by": "codex", "model": "a"}, {"driver": "codex"}, True),
        ({"by": "codex"}, {"driver": "codex", "model": "a"}, True),
        ({"by": "codex", "model": "a"}, {"driver": "codex", "model": "a"}, True),
        ({"by": "codex", "model": "a"}, {"driver": "codex", "model": "b"}, False),
        ({"by": "native", "model": "a"}, {"driver": "native", "model": "openai:a"}, True),
        ({"by": "codex", "same_model": True}, {"driver": "codex"}, False),
    ],
)
def test_the_author_is_not_its_own_reviewer(
    reviewer: dict[str, object], author: dict[str, object], refused: bool
) -> None:
    check = Check.new(name="r", kind="review", **reviewer)
    found = same_as_author(check, AgentSpec.new(backend="none", cwd=".", **author))
    assert (found is not None) == refused
    assert found is None or (found.reason == "same_reviewer" and found.remedy)


def test_a_person_is_never_like_the_reviewer() -> None:
    assert same_as_author(CHECK, None) is None


DIFF = """diff --git a/a b/a
index 111..222 100644
--- a/a
+++ b/a
@@ -1,2 +1,2 @@ def f():
 x
-y
+z
"""


def test_a_difference_is_the_same_at_other_lines_but_not_with_other_text() -> None:
    moved = DIFF.replace("@@ -1,2 +1,2 @@ def f():", "@@ -9,2 +9,2 @@ def g():")
    moved = moved.replace("111..222", "333..444")
    assert digest_of(moved) == digest_of(DIFF)
    assert digest_of(DIFF.replace("+z", "+ z")) != digest_of(DIFF)
    assert digest_of(DIFF.replace("a/a", "a/b")) != digest_of(DIFF)


def test_a_binary_file_counts_with_its_content() -> None:
    one = "diff --git a/x b/x\nindex 111..222 100644\nBinary files a/x and b/x differ\n"
    assert digest_of(one) != digest_of(one.replace("222", "333"))
