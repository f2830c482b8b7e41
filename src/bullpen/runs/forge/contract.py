"""What a client of a forge must do. `bullpen.testing.forge` has the tests that each must pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from bullpen.errors import Refused, Unavailable
from bullpen.runs.forge.looking.request_budget import RequestBudget
from bullpen.team.forge.shown import (
    Comment,
    Issue,
    IssueQuery,
    LineRemark,
    Person,
    PullRequest,
    Repository,
    Review,
    Thread,
    Verdict,
)

LOOK_THERE = "Look at it on the forge."
"""The remedy where the forge has something else than was expected."""

TRY_LATER = "Try again later."

SUBMIT_FIRST = "Submit or discard that review on the forge, then run the same command again."
"""The remedy where the account has a review that is not submitted."""

MergeMethod = Literal["merge", "squash", "rebase"]


class TryLater(Unavailable):
    """The forge asks to wait: a rate limit, or it is down. `after_s` is None if it did not say."""

    def __init__(self, message: str, *, after_s: float | None = None, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.after_s = after_s


class LinesRefused(Refused):
    """The forge takes no comment on one of these lines. Without them it may take the review."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many requests are left, and in how many seconds there are more. None if unknown."""

    left: int | None
    resets_s: float | None


class ForgeClient(Protocol):
    """A repository on a forge, by one token.

    Lists are whole: every page was read, or the call raised. Reads send what makes the forge answer
    "unchanged" where it can, and then return what they returned before.

    Every call may raise:
        TryLater: a rate limit or a failure of the forge; the same call may succeed later. A write
            that raises it may have happened: look before you repeat it.
        NotFound: there is no such thing, or the token cannot see it.
        Refused: with reason `forge_refused`; the forge does not allow it. A branch that has moved
            on, a protected branch, a missing right. Its message has the forge's words.
        Conflict: the thing exists already, or it changed after it was read.
    """

    @property
    def budget(self) -> RequestBudget:
        """Return what limits its requests. Each request that is sent is taken from it first."""
        ...

    def allowance(self) -> Allowance:
        """Return what the last answer said about the limit of requests."""
        ...

    async def me(self) -> Person:
        """Return whose token it is."""
        ...

    async def repository(self) -> Repository:
        """Return the repository."""
        ...

    async def missing_rights(self) -> list[str]:
        """Return which rights the token lacks, as the forge names them. Nothing is changed.

        It asks for changes of things that do not exist: without the right the forge says so first.
        """
        ...

    async def issues(self, query: IssueQuery) -> list[Issue]:
        """Return the open issues that a query names, oldest first, without pull requests."""
        ...

    async def issue(self, number: int) -> Issue:
        """Return one issue, open or closed, with what it is blocked by.

        Raises NotFound for the number of a pull request.
        """
        ...

    async def comments(self, number: int) -> list[Comment]:
        """Return the comments on an issue or pull request, oldest first, without those on lines."""
        ...

    async def comment(self, number: int, body: str) -> Comment:
        """Write a comment on an issue or pull request."""
        ...

    async def edit_comment(self, comment_id: str, body: str) -> None:
        """Replace the text of a comment."""
        ...

    async def set_labels(
        self, number: int, *, add: tuple[str, ...] = (), remove: tuple[str, ...] = ()
    ) -> None:
        """Add and remove labels. A label that the repository lacks is created first."""
        ...

    async def close_issue(self, number: int) -> None:
        """Close an issue. It is no error if it is closed already."""
        ...

    async def branch_head(self, branch: str) -> str | None:
        """Return the commit of a branch; None if there is no such branch."""
        ...

    async def delete_branch(self, branch: str) -> None:
        """Delete a branch. It is no error if it is gone already."""
        ...

    async def pulls_of_branch(self, branch: str) -> list[PullRequest]:
        """Return the pull requests from a branch of this repository, open or not, newest first."""
        ...

    async def open_pulls(self) -> list[PullRequest]:
        """Return all open pull requests of this repository with one list, oldest first.

        `mergeable` may be None in a list although `pull` knows it.
        """
        ...

    async def pull(self, number: int) -> PullRequest:
        """Return one pull request."""
        ...

    async def open_pull(
        self, *, title: str, body: str, branch: str, base: str, draft: bool = False
    ) -> PullRequest:
        """Open a pull request. Raises Conflict if one is open from this branch to this base."""
        ...

    async def edit_pull(
        self, number: int, *, title: str | None = None, body: str | None = None
    ) -> None:
        """Change the title or the text of a pull request."""
        ...

    async def close_pull(self, number: int) -> None:
        """Close a pull request without merging it. It is no error if it is closed already."""
        ...

    async def merge_pull(self, number: int, *, head: str, method: MergeMethod) -> str:
        """Merge a pull request whose head is still `head`; return the commit on the base.

        Raises Refused with reason `forge_refused` if the forge does not allow it now, Conflict if
        the head has moved.
        """
        ...

    async def reviews(self, number: int) -> list[Review]:
        """Return the reviews of a pull request, oldest first, without those not submitted yet."""
        ...

    async def post_review(
        self, number: int, *, commit: str, body: str, comments: Sequence[LineRemark] = ()
    ) -> Review:
        """Post a review of a commit that neither approves nor refuses, with comments on lines.

        It is posted as one, or not at all. Raises LinesRefused if the forge does not show one of
        the lines, and Conflict if the account has a review there that it has not submitted.
        """
        ...

    async def threads(self, number: int) -> list[Thread]:
        """Return the threads on lines of a pull request, oldest first, with all their comments."""
        ...

    async def reply(self, number: int, thread: Thread, body: str) -> Comment:
        """Answer in a thread."""
        ...

    async def resolve(self, number: int, thread: Thread) -> bool:
        """Mark a thread as resolved. Returns False if this forge has no call for that."""
        ...

    async def verdicts(self, commit: str) -> list[Verdict]:
        """Return the newest verdict of each job of CI about a commit, by name.

        A failed one has its failing step and the end of its log, where the forge shows them.
        """
        ...
