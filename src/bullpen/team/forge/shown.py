"""What a forge shows: issues, pull requests, reviews and verdicts of CI.

All of it is data that strangers may have written; nothing in Bullpen obeys it.

A forge is GitHub, Gitea or Forgejo. Its clients translate their answers into these records, and
every rule reads only these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ReviewState = Literal["approved", "changes_requested", "commented", "dismissed"]

VerdictState = Literal["pending", "success", "failure", "skipped"]


@dataclass(frozen=True, slots=True)
class Person:
    """Who wrote something. `trusted` means: the forge says that this account may write here."""

    login: str
    trusted: bool


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository, and what the token may do in it."""

    owner: str
    name: str
    default_branch: str
    url: str
    clone_url: str
    may_push: bool


@dataclass(frozen=True, slots=True)
class IssueQuery:
    """Which open issues to take. All that are given must hold; of `labels`, every one."""

    labels: tuple[str, ...] = ()
    assignee: str | None = None
    milestone: str | None = None
    # Words for the forge's own search.
    query: str | None = None


@dataclass(frozen=True, slots=True)
class Issue:
    """An issue. `blocked_by` and `children` are those that the forge itself records."""

    number: int
    title: str
    body: str
    author: Person
    is_open: bool
    url: str
    updated: str
    labels: tuple[str, ...] = ()
    assignees: tuple[str, ...] = ()
    milestone: str | None = None
    blocked_by: tuple[int, ...] = ()
    children: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on an issue or pull request, or one in a thread."""

    id: str
    author: Person
    body: str
    url: str
    at: str


@dataclass(frozen=True, slots=True)
class Review:
    """A review as a whole: its state, and the commit that it judged."""

    id: str
    author: Person
    state: ReviewState
    body: str
    commit: str
    url: str
    at: str


@dataclass(frozen=True, slots=True)
class Thread:
    """Comments on one line of a pull request. The first comment began it."""

    id: str
    path: str
    line: int | None
    resolved: bool
    comments: tuple[Comment, ...]


@dataclass(frozen=True, slots=True)
class LineRemark:
    """A comment on a line of the new side, as it is to be posted."""

    path: str
    line: int
    body: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a job of CI says about one commit. `tail` is the end of the failing step's log."""

    name: str
    state: VerdictState
    commit: str
    url: str
    step: str | None = None
    tail: str | None = None


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request. `mergeable` is None while the forge does not know.

    `branch` has `OWNER:` before it if it is a branch of another repository, so that it is never
    taken for one of this repository.
    """

    number: int
    title: str
    body: str
    author: Person
    url: str
    branch: str
    head: str
    base: str
    is_open: bool
    merged: bool
    mergeable: bool | None
    merge_commit: str | None = None
    labels: tuple[str, ...] = ()
    draft: bool = False
    # The forge says that a required check or approval is missing. It may let some accounts merge
    # all the same. Lists do not say it.
    blocked: bool = False
    # When something was said or done there last, as the forge writes it; empty if it does not say.
    updated: str = ""
