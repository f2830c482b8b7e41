"""The answers of Gitea, as far as they are read. Everything else in them is left alone."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from bullpen.team.forge.shown import ReviewState, VerdictState


def _none_is_empty(value: Any) -> Any:
    return "" if value is None else value


def _none_is_no_entry(value: Any) -> Any:
    return [] if value is None else value


Text = Annotated[str, BeforeValidator(_none_is_empty)]
"""A text; the server may send null for an empty one."""

REVIEW_STATES: dict[str, ReviewState] = {
    "APPROVED": "approved",
    "REQUEST_CHANGES": "changes_requested",
    "COMMENT": "commented",
}
"""Other states are no reviews: one is asked for, or not submitted yet."""

VERDICT_STATES: dict[str, VerdictState] = {
    "pending": "pending",
    "success": "success",
    "error": "failure",
    "failure": "failure",
    # The server counts a warning as a failure too.
    "warning": "failure",
    "skipped": "skipped",
}


class User(BaseModel):
    """An account."""

    login: str


class Named(BaseModel):
    """A label, with its number."""

    id: int
    name: str


class Milestone(BaseModel):
    """A milestone."""

    title: str


class Rights(BaseModel):
    """What the token may do in a repository."""

    push: bool = False


class Repo(BaseModel):
    """A repository."""

    id: int
    owner: User
    name: str
    default_branch: Text = ""
    html_url: str
    clone_url: str
    archived: bool = False
    mirror: bool = False
    permissions: Rights | None = None


class Place(BaseModel):
    """The repository of an issue."""

    full_name: Text = ""


class Written(BaseModel):
    """What somebody wrote. `user` is None for a deleted account."""

    user: User | None = None
    # Who wrote it on the forge that it was moved from; then `user` is who moved it.
    original_author: Text = ""


class IssueAnswer(Written):
    """An issue, or a pull request as one."""

    number: int
    title: Text
    body: Text = ""
    state: str
    html_url: Text = ""
    updated_at: Text = ""
    labels: Annotated[list[Named], BeforeValidator(_none_is_no_entry)] = Field(default_factory=list)
    assignees: Annotated[list[User], BeforeValidator(_none_is_no_entry)] = Field(
        default_factory=list
    )
    milestone: Milestone | None = None
    pull_request: dict[str, Any] | None = None
    repository: Place | None = None


class CommentAnswer(Written):
    """A comment."""

    id: int
    body: Text
    html_url: Text = ""
    created_at: Text = ""


class LineComment(CommentAnswer):
    """A comment on a line: of the new side at `position`, or of the old at `original_position`."""

    path: str
    commit_id: Text = ""
    position: int = 0
    original_position: int = 0
    pull_request_review_id: int
    resolver: User | None = None

    @property
    def line(self) -> int:
        """The line, below zero on the old side."""
        return self.position or -self.original_position


class ReviewAnswer(Written):
    """A review."""

    id: int
    state: str
    body: Text = ""
    commit_id: Text = ""
    dismissed: bool = False
    comments_count: int = 0
    html_url: Text = ""
    submitted_at: Text = ""


class Commit(BaseModel):
    """A commit."""

    id: str


class BranchAnswer(BaseModel):
    """A branch."""

    name: str
    commit: Commit


class End(BaseModel):
    """One side of a pull request. `label` is the branch, also when it is deleted."""

    label: Text = ""
    ref: Text = ""
    sha: Text = ""
    repo_id: int = -1
    repo: Repo | None = None


class PullAnswer(Written):
    """A pull request."""

    number: int
    title: Text
    body: Text = ""
    state: str
    draft: bool = False
    html_url: Text = ""
    labels: Annotated[list[Named], BeforeValidator(_none_is_no_entry)] = Field(default_factory=list)
    merged: bool = False
    mergeable: bool = False
    merge_commit_sha: str | None = None
    updated_at: Text = ""
    base: End
    head: End


class StatusAnswer(BaseModel):
    """What a job says about a commit."""

    id: int
    status: str
    context: Text = ""
    target_url: Text = ""
    description: Text = ""


class Step(BaseModel):
    """A step of a job."""

    name: Text = ""
    conclusion: Text = ""


class Job(BaseModel):
    """A job of Actions."""

    id: int
    name: Text = ""
    head_sha: Text = ""
    html_url: Text = ""
    steps: Annotated[list[Step], BeforeValidator(_none_is_no_entry)] = Field(default_factory=list)


class Permission(BaseModel):
    """What somebody may do in a repository."""

    permission: str


_DRAFT = re.compile(r"^\s*(?:WIP:|\[WIP\]|Draft:)\s*", re.IGNORECASE)


def without_draft_mark(title: str) -> str:
    """Return a title without what makes the pull request a draft."""
    return _DRAFT.sub("", title, count=1) or title


def with_draft_mark(title: str) -> str:
    """Return a title that makes the pull request a draft."""
    return f"WIP: {title}"
