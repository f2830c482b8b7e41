"""The stage of the contract suite on the stand-in for GitHub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from bullpen.runs.forge.clients.github import GitHub
from bullpen.team.forge.shown import ReviewState, VerdictState
from bullpen.testing.forge.checkout import Checkout
from bullpen.testing.forge.github import rest
from bullpen.testing.forge.github.server import GitHubStandIn
from bullpen.testing.forge.github.state import (
    Account,
    CheckRow,
    CommentRow,
    IssueRow,
    ReviewRow,
    ThreadRow,
)
from bullpen.testing.forge.stage import Abilities, ForgeStage, LineNote, Role

LOGINS: Mapping[Role, str] = {"team": "bullpen-bot", "reviewer": "rita", "stranger": "stan"}

_STATES = {
    "approved": "APPROVED",
    "changes_requested": "CHANGES_REQUESTED",
    "commented": "COMMENTED",
    "dismissed": "DISMISSED",
    "pending": "PENDING",
}
_CONCLUSIONS = {"success": "success", "failure": "failure", "skipped": "skipped"}


class GitHubStage(ForgeStage):
    """A repository `octo/shop` on a stand-in, and what others do in it.

    With `by_status`, verdicts are commit statuses instead of check runs.
    """

    def __init__(self, server: GitHubStandIn, folder: Path, *, by_status: bool = False) -> None:
        self.server, self._folder, self._by_status = server, folder, by_status
        # A commit status has one line and no log.
        self.abilities = Abilities(shows_logs=not by_status, tells_skipped=not by_status)
        for role, login in LOGINS.items():
            if login not in server.accounts:
                server.account(login, "read" if role == "stranger" else "write")
        self.state = server.repository("octo", f"shop-{len(server.repositories)}")
        self._clients: list[GitHub] = []
        self._checkouts: dict[Role, Checkout] = {}

    async def aclose(self) -> None:
        """Close the clients."""
        for each in self._clients:
            await each.aclose()

    @property
    def owner(self) -> str:
        return self.state.owner

    @property
    def name(self) -> str:
        return self.state.name

    @property
    def clone_url(self) -> str:
        return f"{self.server.origin}/{self.owner}/{self.name}.git"

    def account(self, role: Role) -> Account:
        """Return an account."""
        return self.server.accounts[LOGINS[role]]

    def login(self, role: Role) -> str:
        return LOGINS[role]

    def token(self, role: Role) -> str:
        return self.account(role).token

    def client(
        self,
        role: Role = "team",
        *,
        token: str | None = None,
        repository: str | None = None,
        page_size: int = 30,
    ) -> GitHub:
        made = GitHub(
            self.owner,
            repository or self.name,
            token or self.token(role),
            api=self.server.origin,
            page_size=page_size,
        )
        self._clients.append(made)
        return made

    def _row(self, number: int) -> IssueRow:
        return self.state.issues[number]

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
        with self.server.lock:
            # GitHub shows an empty text as none.
            row = self.state.add_issue(self.account(role), title, body or None)
            row.labels = self.state.ensure_labels(labels)
            row.assignees = [self.account(assignee)] if assignee else []
            if milestone:
                self.state.milestones.setdefault(milestone, len(self.state.milestones) + 1)
                row.milestone = milestone
            return row.number

    async def comment(self, number: int, *bodies: str, role: Role = "reviewer") -> None:
        with self.server.lock:
            for each in bodies:
                self.state.comment(self._row(number), self.account(role), each)

    async def close_issue(self, number: int) -> None:
        with self.server.lock:
            self.state.close(self._row(number))

    async def block(self, number: int, by: int) -> None:
        with self.server.lock:
            self._row(number).blocked_by.append(by)

    async def add_child(self, number: int, child: int) -> None:
        with self.server.lock:
            self._row(number).children.append(child)

    async def push(
        self,
        branch: str,
        files: Mapping[str, str],
        *,
        base: str = "main",
        force: bool = False,
        role: Role = "team",
    ) -> str:
        checkout = self._checkouts.get(role)
        if checkout is None:
            folder = self._folder / f"{self.name}-{role}"
            checkout = Checkout(folder, self.clone_url, self.token(role), self.login(role))
            self._checkouts[role] = checkout
        return await checkout.push(branch, files, base=base, force=force)

    async def protect(self, branch: str) -> None:
        with self.server.lock:
            self.state.protected.add(branch)

    async def merge(self, number: int) -> None:
        with self.server.lock:
            rest.merge(self.state, self._row(number), "merge")

    async def review(
        self,
        number: int,
        state: ReviewState | Literal["pending"],
        body: str = "",
        *,
        role: Role = "reviewer",
        notes: Sequence[LineNote] = (),
    ) -> None:
        author = self.account(role)
        with self.server.lock:
            pull = self._row(number).pull
            assert pull is not None
            at = None if state == "pending" else self.state.now()
            review = ReviewRow(
                self.state.new_id(), number, author, _STATES[state], body, pull.head, at
            )
            self.state.reviews.append(review)
            if at is not None:
                self._row(number).updated = at
            for each in notes:
                made = self._line_comment(author, each.body, pending=state == "pending")
                node = f"PRRT_{self.state.new_id()}"
                thread = ThreadRow(node, number, each.path, each.line, [made])
                self.state.threads.append(thread)

    def _line_comment(self, author: Account, body: str, *, pending: bool = False) -> CommentRow:
        return CommentRow(self.state.new_id(), author, body, self.state.now(), pending)

    def _thread(self, number: int, note: str) -> ThreadRow:
        return next(
            each
            for each in self.state.threads
            if each.number == number and each.comments[0].body == note
        )

    async def answer(self, number: int, note: str, *bodies: str, role: Role = "reviewer") -> None:
        with self.server.lock:
            thread = self._thread(number, note)
            thread.comments += [self._line_comment(self.account(role), each) for each in bodies]
            self._row(number).updated = self.state.now()

    async def resolve(self, number: int, note: str) -> None:
        with self.server.lock:
            self._thread(number, note).resolved = True

    async def verdict(
        self,
        commit: str,
        name: str,
        state: VerdictState,
        *,
        step: str | None = None,
        log: str = "",
    ) -> None:
        with self.server.lock:
            if self._by_status:
                row = CheckRow(
                    self.state.new_id(),
                    commit,
                    name,
                    state,
                    None,
                    self.state.now(),
                    is_status=True,
                )
            else:
                row = CheckRow(
                    self.state.new_id(),
                    commit,
                    name,
                    "queued" if state == "pending" else "completed",
                    _CONCLUSIONS.get(state),
                    self.state.now(),
                    step=step,
                    log=_job_log(step, log) if log else None,
                )
            self.state.checks.append(row)


def _job_log(step: str | None, log: str) -> str:
    """Return a log as Actions writes it: each line with its time, and cleaning at the end."""
    lines = [f"##[group]{step or 'Run'}", "##[endgroup]", *log.splitlines()]
    if step:
        lines += ["##[error]Process completed with exit code 1."]
    lines += ["Post job cleanup.", *(f"cleaning {each}" for each in range(300))]
    return "".join(f"2026-01-01T00:00:00.1234567Z {each}\n" for each in lines)
