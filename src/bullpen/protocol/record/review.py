"""What a reviewer said about the work of a task. Bullpen's own record, a fact of that task."""

from __future__ import annotations

from typing import Literal

from bullpen.protocol.record import Wire, field
from bullpen.protocol.request import Request

REVIEW_TOOL = "Review"
"""What a request asks to use that asks a person to decide instead of a reviewer."""

Verdict = Literal["approve", "change", "veto", "none"]
"""`approve`: it may be merged. `change`: it may not yet, and the comments say why. `veto`: it must
not be merged in any form without a person. `none`: the reviewer gave no verdict that can be read.
"""

VERDICTS: tuple[Verdict, ...] = ("approve", "change", "veto")
"""What a reviewer may answer."""

REVIEWS_MAX = 60
"""How many reviews of a task are kept; the oldest are dropped."""


class Comment(Wire):
    """A remark of a reviewer, about a line of a file if it names one."""

    text: str = field(min_length=1)
    file: str | None = None
    line: int | None = field(default=None, ge=1)

    @property
    def words(self) -> str:
        """Return the remark with its place."""
        if self.file is None:
            return self.text
        at = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{at}: {self.text}"


class Review(Wire):
    """The verdict of one review."""

    # The name of the check, and a digest of what it asked for: a changed rubric starts anew.
    check: str
    asked: str
    # A digest of the difference that was reviewed. The same work on a newer target has the same.
    work: str
    verdict: Verdict
    by: str
    model: str | None = None
    attempt: int
    at_ms: int
    # What the reviewer says, or why there is no verdict.
    summary: str = ""
    comments: list[Comment] = field(default_factory=list)


def is_review(request: Request) -> bool:
    """Return whether a request asks a person to decide instead of a reviewer."""
    return request.kind == "permission" and request.subject.get("toolName") == REVIEW_TOOL
