"""The other side of the contract suite: people and CI that act on a forge, without the client.

A stage is one fresh repository on a running forge. Its default branch is `main` with the file
`README.md`. The suite does everything on it by these methods, so that what a client returns is
compared with what others did.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bullpen.runs.forge.contract import ForgeClient
from bullpen.team.forge.shown import ReviewState, VerdictState

Role = Literal["team", "reviewer", "stranger"]
"""The team's own account, a person who may write here, and one who only sees the repository."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a forge can do. The tests of what it cannot do are skipped."""

    resolves_threads: bool = True
    records_blocking: bool = True
    records_children: bool = True
    shows_logs: bool = True
    # A job of CI can say that it had nothing to do.
    tells_skipped: bool = True
    searches_words: bool = True
    # It takes comments only on lines that its difference shows.
    refuses_lines: bool = True
    # An "unchanged" answer does not count against the limit of requests.
    counts_requests: bool = True


@dataclass(frozen=True, slots=True)
class LineNote:
    """A comment on a line of the new side of a pull request."""

    path: str
    line: int
    body: str


class ForgeStage(ABC):
    """One repository on a forge, and what others do in it."""

    abilities = Abilities()

    @property
    @abstractmethod
    def owner(self) -> str:
        """Return whose repository it is."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the name of the repository."""

    @property
    @abstractmethod
    def clone_url(self) -> str:
        """Return the address that git pushes to, without a token."""

    @abstractmethod
    def login(self, role: Role) -> str:
        """Return the name of an account."""

    @abstractmethod
    def token(self, role: Role) -> str:
        """Return the token of an account. With git it is the password; any user name will do."""

    @abstractmethod
    def client(
        self,
        role: Role = "team",
        *,
        token: str | None = None,
        repository: str | None = None,
        page_size: int = 30,
    ) -> ForgeClient:
        """Return a new client of this repository, or of another one of this owner.

        It is closed at the end of the test.
        """

    # Issues

    @abstractmethod
    async def issue(
        self,
        title: str,
        body: str = "",
        *,
        role: Role = "reviewer",
        labels: Sequence[str] = (),
        assignee: Role | None = None,
        milestone: str | None = None,
    ) -> int:
        """Open an issue. Labels and the milestone are created if they do not exist."""

    @abstractmethod
    async def comment(self, number: int, *bodies: str, role: Role = "reviewer") -> None:
        """Write comments on an issue or pull request, in this order."""

    @abstractmethod
    async def close_issue(self, number: int) -> None:
        """Close an issue as a person does."""

    @abstractmethod
    async def block(self, number: int, by: int) -> None:
        """Record that an issue is blocked by another one."""

    @abstractmethod
    async def add_child(self, number: int, child: int) -> None:
        """Record that an issue has another one as a part."""

    # Branches and pull requests

    @abstractmethod
    async def push(
        self,
        branch: str,
        files: Mapping[str, str],
        *,
        base: str = "main",
        force: bool = False,
        role: Role = "team",
    ) -> str:
        """Commit files on top of `base` and push that to a branch; return the commit."""

    @abstractmethod
    async def protect(self, branch: str) -> None:
        """Require an approving review for every pull request to a branch."""

    @abstractmethod
    async def merge(self, number: int) -> None:
        """Merge a pull request as a person does in the browser."""

    # Reviews

    @abstractmethod
    async def review(
        self,
        number: int,
        state: ReviewState | Literal["pending"],
        body: str = "",
        *,
        role: Role = "reviewer",
        notes: Sequence[LineNote] = (),
    ) -> None:
        """Review the head of a pull request. With state `dismissed`: approve it, then dismiss it.

        With `pending` the review is not submitted.
        """

    @abstractmethod
    async def answer(self, number: int, note: str, *bodies: str, role: Role = "reviewer") -> None:
        """Answer in the thread that began with the comment `note`."""

    @abstractmethod
    async def resolve(self, number: int, note: str) -> None:
        """Resolve the thread that began with the comment `note`."""

    # CI

    @abstractmethod
    async def verdict(
        self,
        commit: str,
        name: str,
        state: VerdictState,
        *,
        step: str | None = None,
        log: str = "",
    ) -> None:
        """Tell the outcome of a job about a commit. `step` failed and `log` is what the job wrote.

        Where the forge cannot show logs, `step` and `log` are left out.
        """
