"""Reviews a change of a repository, without a task or a team."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from anyio import to_thread

from bullpen.errors import Invalid
from bullpen.protocol.task import Check
from bullpen.runs.review.reviewer import Answered, ask_reviewer, refuse_too_long, review_folder
from bullpen.team.tasks.reviews.verdict import ReviewMatter
from bullpen.workspace.git.repository import repository_at
from bullpen.workspace.handover.reviewed_work import (
    Span,
    lay_out,
    messages_in,
    span_of,
    work_in,
)


@dataclass(frozen=True, slots=True)
class RangeReview:
    """The review of a change, and which change it was."""

    span: Span
    answered: Answered


async def review_range(
    cwd: str, named: str | None, check: Check, *, environ: Mapping[str, str]
) -> RangeReview:
    """Have a range of commits reviewed; without one, everything that is not committed.

    Raises:
        Invalid: there is no such range, or it changes nothing.
        CouldNotReview: there is no verdict.
    """
    span = await to_thread.run_sync(_span, Path(cwd), named)
    async with review_folder() as folder:
        title = f"The change {named}" if named else "The changes that are not committed"
        return await review_span(
            span,
            check,
            folder,
            title=title,
            nothing=f"Nothing is left to review in {named or 'the uncommitted changes'}.",
            environ=environ,
        )


async def review_span(
    span: Span,
    check: Check,
    folder: Path,
    *,
    title: str,
    nothing: str,
    description: str = "",
    environ: Mapping[str, str],
) -> RangeReview:
    """Have the work between two commits reviewed, in a folder of its own.

    `nothing` is what an error says if they do not differ. Raises as `review_range` does.
    """
    work = await to_thread.run_sync(lay_out, span, folder / "work")
    if not work.difference.strip():
        raise Invalid(
            nothing,
            remedy="Name what to review, such as main..HEAD, or HEAD for the last commit.",
        )
    refuse_too_long(work)
    messages = await to_thread.run_sync(messages_in, span)
    matter = ReviewMatter(
        title=title,
        description="\n\n".join(part for part in (description, messages) if part),
        rubric=check.rubric,
        difference=work.difference,
    )
    left_out = await to_thread.run_sync(work.fill)
    answered = await ask_reviewer(check, replace(matter, left_out=left_out), work, environ=environ)
    return RangeReview(span, answered)


def _span(cwd: Path, named: str | None) -> Span:
    if named is None:
        return work_in(cwd, lambda _, head: head)
    return span_of(repository_at(cwd).top, named)
