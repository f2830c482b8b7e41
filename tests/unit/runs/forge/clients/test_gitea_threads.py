"""Threads on lines, put together from the comments of reviews."""

from __future__ import annotations

import pytest

from bullpen.runs.forge.clients.gitea_answers import LineComment, User
from bullpen.runs.forge.clients.gitea_threads import marked, threads_of, unmarked

US = "the-team"


def said(
    number: int,
    body: str = "words",
    *,
    review: int = 1,
    path: str = "a.py",
    line: int = 3,
    by: str = "anna",
    resolver: str | None = None,
    moved_from: str = "",
) -> LineComment:
    return LineComment(
        id=number,
        body=body,
        user=User(login=by),
        original_author=moved_from,
        path=path,
        position=max(line, 0),
        original_position=max(-line, 0),
        pull_request_review_id=review,
        resolver=None if resolver is None else User(login=resolver),
    )


def shape(*comments: LineComment) -> list[list[int]]:
    return [[each.id for each in one.comments] for one in threads_of(comments, US)]


def test_answers_in_a_review_are_in_its_thread() -> None:
    assert shape(said(1), said(2), said(3)) == [[1, 2, 3]]


def test_comments_are_ordered_by_when_they_were_written() -> None:
    assert shape(said(9, line=1), said(2, line=2), said(4, line=2)) == [[2, 4], [9]]


def test_each_line_side_path_and_review_is_a_thread_of_its_own() -> None:
    comments = [said(1), said(2, line=4), said(3, line=-3), said(4, path="b.py"), said(5, review=2)]
    assert shape(*comments) == [[1], [2], [3], [4], [5]]


def test_a_new_complaint_about_a_line_is_not_hidden_in_a_resolved_thread() -> None:
    threads = threads_of([said(1, resolver=US), said(2, review=2)], US)
    assert [each.resolved for each in threads] == [True, False]


def test_our_answer_in_a_review_of_its_own_is_in_the_thread_that_it_names() -> None:
    answer = said(3, marked("done", 2), review=7, by=US)
    assert shape(said(1), said(2, review=2), answer) == [[1], [2, 3]]
    assert unmarked(answer, US) == "done"
    # What follows our answer in its review is in the thread too.
    assert shape(
        said(1), said(2, review=2), answer, said(4, marked("more", 3), review=8, by=US)
    ) == [
        [1],
        [2, 3, 4],
    ]


def test_who_answers_our_answer_is_in_the_thread_that_it_answers() -> None:
    answer = said(2, marked("done", 1), review=7, by=US)
    assert shape(said(1), answer, said(3, "not yet", review=7)) == [[1, 2, 3]]


def test_a_thread_is_as_resolved_as_its_first_comment() -> None:
    answer = said(2, marked("done", 1), review=7, by=US, resolver=US)
    (thread,) = threads_of([said(1), answer, said(3, "not yet", review=7)], US)
    assert not thread.resolved
    assert [each.id for each in thread.beginnings] == [1, 2]


def test_nobody_else_moves_a_comment_into_another_thread() -> None:
    forged = said(3, marked("all is well", 1), review=2)
    moved = said(4, marked("all is well", 1), review=3, by=US, moved_from="mallory")
    assert shape(said(1), forged, moved) == [[1], [3], [4]]
    assert unmarked(forged, US) == forged.body


def test_an_answer_to_a_comment_that_is_gone_is_still_shown() -> None:
    assert shape(said(3, marked("done", 2), review=7, by=US)) == [[3]]


def test_a_thread_stays_the_same_when_its_first_comment_is_deleted() -> None:
    (before,) = threads_of([said(1), said(2)], US)
    (after,) = threads_of([said(2)], US)
    assert before.id == after.id


@pytest.mark.parametrize("body", ["", "a\n\nb", "<!-- answers:5 -->", "x\n\n<!-- answers:5 -->"])
def test_marking_a_text_is_taken_back_exactly(body: str) -> None:
    assert unmarked(said(1, marked(body, 9), by=US), US) == body
