"""What the stand-in remembers: accounts, issues, pull requests, reviews and checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

from bullpen.testing.forge.github.bare_repository import BareRepository

Permission = Literal["admin", "write", "read", "none"]

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Account:
    """Somebody with a token."""

    id: int
    login: str
    token: str
    permission: Permission
    is_app: bool = False


@dataclass(slots=True)
class CommentRow:
    """A comment on an issue or pull request, or on a line."""

    id: int
    author: Account | None
    body: str
    created: str
    pending: bool = False


@dataclass(slots=True)
class PullRow:
    """What a pull request has more than an issue."""

    branch: str
    base: str
    head: str
    draft: bool = False
    merged: str | None = None
    merge_commit: str | None = None
    # The repository that has the branch, as OWNER/NAME; None is this one.
    fork: str | None = None


@dataclass(slots=True)
class IssueRow:
    """An issue or a pull request."""

    id: int
    number: int
    title: str
    body: str | None
    author: Account | None
    created: str
    updated: str
    state: Literal["open", "closed"] = "open"
    closed: str | None = None
    labels: list[str] = field(default_factory=list)
    assignees: list[Account] = field(default_factory=list)
    milestone: str | None = None
    blocked_by: list[int] = field(default_factory=list)
    children: list[int] = field(default_factory=list)
    comments: list[CommentRow] = field(default_factory=list)
    pull: PullRow | None = None


@dataclass(slots=True)
class ReviewRow:
    """A review of a pull request."""

    id: int
    number: int
    author: Account
    state: str
    body: str
    commit: str
    submitted: str | None


@dataclass(slots=True)
class ThreadRow:
    """A thread on a line."""

    id: str
    number: int
    path: str
    line: int
    comments: list[CommentRow]
    resolved: bool = False


@dataclass(slots=True)
class CheckRow:
    """A check run or, with a context, a commit status."""

    id: int
    commit: str
    name: str
    status: str
    conclusion: str | None
    created: str
    is_status: bool = False
    step: str | None = None
    log: str | None = None


class RepositoryState:
    """One repository."""

    def __init__(self, owner: str, name: str, git: BareRepository, ids: Iterator[int]) -> None:
        self.owner, self.name, self.git, self._ids = owner, name, git, ids
        self.accounts: dict[str, Account] = {}
        self.issues: dict[int, IssueRow] = {}
        self.labels: dict[str, str] = {}
        self.milestones: dict[str, int] = {}
        self.reviews: list[ReviewRow] = []
        self.threads: list[ThreadRow] = []
        self.checks: list[CheckRow] = []
        self.protected: set[str] = set()
        # The team's account may merge whatever the rules of a branch say, as an admin may.
        self.ignores_rules = False
        self._seconds = 0

    def now(self) -> str:
        """Return a moment one second after the last one."""
        self._seconds += 1
        return (_BEGIN + timedelta(seconds=self._seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def new_id(self) -> int:
        """Return an id that nothing else has on the stand-in."""
        return next(self._ids)

    def add_issue(
        self, author: Account, title: str, body: str | None, pull: PullRow | None = None
    ) -> IssueRow:
        """Add an issue or pull request with the next number."""
        now = self.now()
        number = len(self.issues) + 1
        row = IssueRow(self.new_id(), number, title, body, author, now, now, pull=pull)
        self.issues[number] = row
        if pull is not None:
            self.git.keep(number, pull.head)
        return row

    def comment(self, row: IssueRow, author: Account, body: str) -> CommentRow:
        """Add a comment to an issue or pull request."""
        now = self.now()
        comment = CommentRow(self.new_id(), author, body, now)
        row.comments.append(comment)
        row.updated = now
        return comment

    def close(self, row: IssueRow) -> None:
        """Close an issue or pull request."""
        if row.state == "open":
            row.state, row.closed = "closed", self.now()
            row.updated = row.closed

    def ensure_labels(self, names: Sequence[str]) -> list[str]:
        """Create labels that are missing; return their names as they were first written."""
        return [self.labels.setdefault(name.lower(), name) for name in names]

    def moved(self) -> None:
        """Look what a change of branches did to the open pull requests."""
        for row in self.issues.values():
            pull = row.pull
            if pull is None or row.state != "open" or pull.fork is not None:
                continue
            head = self.git.head(pull.branch)
            if head is None:
                self.close(row)
            elif self.git.contains(pull.base, head) and (
                # The base moved to it. A branch that was reset to its base is not merged.
                head == pull.head or head != self.git.head(pull.base)
            ):
                self.merged(row, head)
            elif head != pull.head:
                pull.head = head
                row.updated = self.now()
                self.git.keep(row.number, head)

    def merged(self, row: IssueRow, commit: str) -> None:
        """Record that a pull request was merged."""
        assert row.pull is not None
        self.close(row)
        row.pull.merged, row.pull.merge_commit = row.closed, commit

    def forbids(self, row: IssueRow) -> bool:
        """Return whether the rules of its branch do not let a pull request be merged yet."""
        pull = row.pull
        return pull is not None and pull.base in self.protected and not self.approved(row)

    def approved(self, row: IssueRow) -> bool:
        """Return whether somebody who may write approves and nobody of them objects."""
        newest: dict[str, str] = {}
        for each in self.reviews:
            counts = each.author.permission in {"admin", "write"} and each.author != row.author
            if each.number == row.number and counts and each.state not in {"COMMENTED", "PENDING"}:
                newest[each.author.login] = each.state
        return "APPROVED" in newest.values() and "CHANGES_REQUESTED" not in newest.values()
