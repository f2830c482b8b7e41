"""`bullpen review --pull`: the change of a pull request, and its verdict posted there."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import anyio

from bullpen.doors.cli.session import Session
from bullpen.doors.cli.tasks.review import as_json, end, lines, says, who
from bullpen.protocol.task import Check
from bullpen.runs.review.of_pull import PullReview
from bullpen.runs.review.of_pull import review_pull as review
from bullpen.runs.review.pull_forge import NamedForge


def review_pull(
    session: Session,
    check: Check,
    number: int,
    *,
    cwd: str,
    post: bool,
    url: str | None,
    kind: str | None,
    api: str | None,
    file: str | None,
) -> None:
    """Review a pull request and say what came of it.

    The verdict is printed even if it could not be posted; then the command fails with the reason.
    """
    ask = partial(
        review,
        cwd,
        number,
        check,
        named=NamedForge(url=url, kind=kind, api=api, file=file),
        post=post,
        home=session.settings.home,
        environ=os.environ,
    )
    found = anyio.run(ask)
    if session.page.json:
        _value(session, check, found)
    else:
        _lines(session, check, found)
    if found.failed is not None:
        raise found.failed
    end(found.verdict)


def _value(session: Session, check: Check, found: PullReview) -> None:
    posted = found.posted
    pull: dict[str, Any] = {
        "number": found.pull.number,
        "url": found.pull.url,
        "posted": None if posted is None else {"url": posted.url, "new": posted.is_new},
    }
    if found.review is not None:
        session.page.value("review/1", {**as_json(check, found.review), "pull": pull})
        return
    by = {"by": check.by, "model": check.model}
    value = {"verdict": found.verdict, **by, "commit": found.pull.head, "pull": pull}
    session.page.value("review-posted/1", value)


def _lines(session: Session, check: Check, found: PullReview) -> None:
    page = session.page
    if found.review is not None:
        lines(session, check, found.review)
    else:
        about = f"#{found.pull.number} at {found.pull.head[:7]}"
        page.line(f"{who(check)} {says(found.verdict)} {about}, by an earlier review")
    if found.posted is not None:
        word = "Posted" if found.posted.is_new else "It was posted already"
        page.line(f"{word}: {found.posted.url}")
