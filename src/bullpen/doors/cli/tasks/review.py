"""`bullpen review`: another agent looks at a change and says whether it may be merged."""

from __future__ import annotations

import os
from functools import partial
from typing import Annotated

import anyio
import typer

from bullpen.agents.drivers.registry import DRIVERS, check_driver
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import PROGRAM, argument, option
from bullpen.doors.cli.options.part_names import part_names
from bullpen.doors.cli.options.spawn import Command, Cwd, Model, Script
from bullpen.doors.cli.session import Session, directory, text_or_input
from bullpen.protocol.task import CHECK_SECONDS_MAX, Check
from bullpen.runs.review.of_range import RangeReview, review_range
from bullpen.team.budget.rules import together

_NOT_APPROVED = 1
_SAYS = {"approve": "approves", "change": "asks for changes to", "veto": "vetoes"}


@examples(
    "bullpen review",
    "bullpen review main..HEAD --by codex",
    "bullpen review HEAD --by claude --rubric 'Is every input checked?' --json",
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
    review = partial(review_range, directory(cwd), named, check, environ=os.environ)
    _show(session, check, anyio.run(review))


def _show(session: Session, check: Check, found: RangeReview) -> None:
    words, page = found.answered.words, session.page
    used = together(found.answered.used)
    value = {
        "verdict": words.verdict,
        "summary": words.summary,
        "comments": [each.raw for each in words.comments],
        "by": check.by,
        "model": check.model,
        "base": found.span.base,
        "commit": found.span.commit,
        "usage": used.raw,
    }
    if page.json:
        page.value("review/1", value)
    else:
        who = " ".join(part for part in (check.by, check.model) if part)
        page.line(f"{who} {_SAYS[words.verdict]} {found.span.base[:7]}..{found.span.commit[:7]}")
        if words.summary:
            page.block(words.summary, indent=2)
        for comment in words.comments:
            page.block(f"- {comment.words}", indent=2)
    if words.verdict != "approve":
        raise typer.Exit(_NOT_APPROVED)
