"""`bullpen review`: another agent looks at a change and says whether it may be merged."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import anyio
import typer

from bullpen.agents.drivers.registry import DRIVERS, check_driver
from bullpen.by_name import load
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import PROGRAM, argument, flag, option
from bullpen.doors.cli.options.part_names import part_names
from bullpen.doors.cli.options.spawn import Command, Cwd, Model, Script
from bullpen.doors.cli.session import Session, directory, text_or_input
from bullpen.errors import Invalid
from bullpen.protocol.task import CHECK_SECONDS_MAX, Check
from bullpen.runs.review.of_range import RangeReview, review_range
from bullpen.team.budget.rules import together

_PULL = "Pull request"

Pull = Annotated[
    int | None, option("Review this pull request of the forge", "N", min=1, panel=_PULL)
]
Post = Annotated[bool, flag("Post the verdict there; it only comments", "--post", panel=_PULL)]
Url = Annotated[
    str | None, option("Page of the repository [default: this clone's]", "URL", panel=_PULL)
]
Kind = Annotated[str | None, option("github or gitea", "KIND", panel=_PULL)]
Api = Annotated[str | None, option("Address of its API", "URL", panel=_PULL)]
ForgeFile = Annotated[str | None, option("Team file whose [forge] is meant", "FILE", panel=_PULL)]

_NOT_APPROVED = 1
_SAYS = {"approve": "approves", "change": "asks for changes to", "veto": "vetoes"}


@examples(
    "bullpen review",
    "bullpen review main..HEAD --by codex",
    "bullpen review HEAD --by claude --rubric 'Is every input checked?' --json",
    "bullpen review --pull 7 --by codex",
    "bullpen review --pull 7 --by codex --post",
)
def review(
    session: Session,
    named: Annotated[
        str | None,
        argument("Commits to review [default: what is not committed]", "RANGE"),
    ] = None,
    *,
    by: Annotated[
        str,
        option(
            "Agent program that reviews; see `bullpen drivers`",
            "DRIVER",
            panel=PROGRAM,
            complete=part_names("driver", DRIVERS),
        ),
    ] = "native",
    model: Model = None,
    rubric: Annotated[
        str | None, option("What to look for; - reads standard input", "TEXT")
    ] = None,
    timeout: Annotated[
        float | None,
        option("The most seconds it may take", "SECONDS", min=1, max=CHECK_SECONDS_MAX),
    ] = None,
    script: Script = None,
    command: Command = None,
    cwd: Cwd = None,
    pull: Pull = None,
    post: Post = False,
    url: Url = None,
    kind: Kind = None,
    api: Api = None,
    file: ForgeFile = None,
) -> None:
    """Have a change reviewed by an agent with a clean context.

    The reviewer sees the change, and reads files as they are with it. It changes and runs nothing.
    Exits with 1 if it does not approve, and with 5 if there is no verdict.
    """
    check_driver(by)
    check = Check.new(
        name="review",
        kind="review",
        by=by,
        model=model,
        run=command if script is None else directory(script),
        rubric=None if rubric is None else text_or_input(rubric),
        timeout_s=timeout,
    )
    where = {"url": url, "kind": kind, "api": api, "file": file}
    _refuse_both(named, pull, {"post": post, **where})
    if pull is not None:
        # Forges are slow to import.
        show: Any = load("bullpen.doors.cli.tasks.review_pull:review_pull")
        show(session, check, pull, cwd=directory(cwd), post=post, **where)
        return
    ask = partial(review_range, directory(cwd), named, check, environ=os.environ)
    found = anyio.run(ask)
    if session.page.json:
        session.page.value("review/1", as_json(check, found))
    else:
        lines(session, check, found)
    end(found.answered.words.verdict)


def _refuse_both(named: str | None, pull: int | None, of_pull: Mapping[str, object]) -> None:
    if pull is not None and named is not None:
        raise Invalid("Pass RANGE or --pull, not both.", remedy="Remove one of them.")
    for name, given in of_pull.items():
        if pull is None and given:
            raise Invalid(f"--{name} needs --pull.", remedy="Name the pull request: --pull N")


def as_json(check: Check, found: RangeReview) -> dict[str, Any]:
    """Return what programs get of a review."""
    words = found.answered.words
    return {
        "verdict": words.verdict,
        "summary": words.summary,
        "comments": [each.raw for each in words.comments],
        "by": check.by,
        "model": check.model,
        "base": found.span.base,
        "commit": found.span.commit,
        "usage": together(found.answered.used).raw,
    }


def lines(session: Session, check: Check, found: RangeReview) -> None:
    """Print a review."""
    words, page = found.answered.words, session.page
    what = f"{found.span.base[:7]}..{found.span.commit[:7]}"
    page.line(f"{who(check)} {says(words.verdict)} {what}")
    if words.summary:
        page.block(words.summary, indent=2)
    for comment in words.comments:
        page.block(f"- {comment.words}", indent=2)


def who(check: Check) -> str:
    """Return the reviewer as people read it."""
    return " ".join(part for part in (check.by, check.model) if part)


def says(verdict: str) -> str:
    """Return what a verdict does, before what it is about."""
    return _SAYS[verdict]


def end(verdict: str) -> None:
    """End with the exit code of a verdict."""
    if verdict != "approve":
        raise typer.Exit(_NOT_APPROVED)
