"""Threads on lines, put together from the comments of reviews: Gitea does not record threads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from bullpen.runs.forge.clients.gitea_answers import LineComment

_ANSWERS = re.compile(r"\n\n<!-- answers:([0-9]{1,18}) -->\s*\Z")


@dataclass(slots=True)
class LineThread:
    """The comments of one thread, oldest first."""

    review: int
    path: str
    # Below zero on the old side.
    line: int
    comments: list[LineComment] = field(default_factory=list)

    @property
    def id(self) -> str:
        """What stays the same whatever is added or deleted."""
        return f"{self.review}:{self.line}:{self.path}"

    @property
    def resolved(self) -> bool:
        """Whether somebody resolved it. The server notes that at the first comment."""
        return self.comments[0].resolver is not None

    @property
    def beginnings(self) -> list[LineComment]:
        """The comments with which the server begins a conversation: one for each review."""
        firsts: dict[int, LineComment] = {}
        for comment in self.comments:
            firsts.setdefault(comment.pull_request_review_id, comment)
        return list(firsts.values())


def threads_of(comments: Sequence[LineComment], our_login: str) -> list[LineThread]:
    """Return the threads that comments are in, oldest first.

    Answers are in the review that they answer. Where a server has no call for that, ours are
    reviews of their own and name what they answer; only in our own comments is that believed.
    """
    threads: dict[str, LineThread] = {}
    thread_of: dict[int, LineThread] = {}
    for comment in sorted(comments, key=lambda each: each.id):
        answered = answers(comment, our_login)
        thread = None if answered is None else thread_of.get(answered)
        made = LineThread(comment.pull_request_review_id, comment.path, comment.line)
        # What others write below our answer is in the thread that it answers.
        thread = threads.setdefault(made.id, thread or made)
        thread.comments.append(comment)
        thread_of[comment.id] = thread
    return list({id(each): each for each in threads.values()}.values())


def answers(comment: LineComment, our_login: str) -> int | None:
    """Return which comment one of ours says that it answers."""
    found = _ANSWERS.search(comment.body)
    if found is None or comment.user is None or comment.original_author:
        return None
    return int(found[1]) if comment.user.login == our_login else None


def marked(body: str, comment_id: int) -> str:
    """Return a text that says which comment it answers."""
    return f"{body}\n\n<!-- answers:{comment_id} -->"


def unmarked(comment: LineComment, our_login: str) -> str:
    """Return a comment's text without what `marked` added."""
    return comment.body if answers(comment, our_login) is None else _ANSWERS.sub("", comment.body)
