"""A forge in memory: a repository, a client of it that counts and can be killed, and its people."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bullpen.errors import Conflict, NotFound, Refused
from bullpen.runs.forge.contract import Allowance, MergeMethod
from bullpen.runs.forge.looking.request_budget import RequestBudget
from bullpen.runs.forge.pushes import BranchMoved
from bullpen.team.forge.shown import (
    Comment,
    Issue,
    IssueQuery,
    LineRemark,
    Person,
    PullRequest,
    Repository,
    Review,
    ReviewState,
    Thread,
    Verdict,
    VerdictState,
)

URL = "https://git.example/acme/shop"
TEAM = Person("bullpen-bot", trusted=True)
ANN = Person("ann", trusted=True)
STRANGER = Person("mallory", trusted=False)


class Killed(BaseException):
    """The process of the worker ends here, as by kill -9."""


@dataclass
class MemoryForge:
    """The repository, as everybody sees it, and what its client was asked."""

    all_issues: dict[int, Issue] = field(default_factory=dict)
    pulls: dict[int, PullRequest] = field(default_factory=dict)
    # By issue or pull request.
    all_comments: dict[int, list[Comment]] = field(default_factory=dict)
    all_reviews: dict[int, list[Review]] = field(default_factory=dict)
    all_threads: dict[int, list[Thread]] = field(default_factory=dict)
    # By commit and job.
    all_verdicts: dict[str, dict[str, Verdict]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=lambda: {"main": "0" * 40})
    # Branches that do not merge cleanly.
    conflicting: set[str] = field(default_factory=set)
    # Why merging is refused, if it is.
    protected: str | None = None
    # What the client was asked, and what it changed.
    reads: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    # At which write the worker is killed, and whether the write happens before that.
    kill_at: int | None = None
    kill_after: bool = False
    # Whether it is killed at each write, the first time that this write is tried.
    kill_every: bool = False
    killed: set[str] = field(default_factory=set)
    # What each call raises, once.
    raises: list[Exception] = field(default_factory=list)
    left: int | None = None
    resets_s: float | None = None
    resolves: bool = True
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    # What people and CI do.

    def issue(
        self, title: str, body: str = "", *, author: Person = ANN, labels: tuple[str, ...] = ()
    ) -> int:
        number = next(self.numbers)
        self.all_issues[number] = Issue(
            number, title, body, author, True, f"{URL}/issues/{number}", "1", labels
        )
        return number

    def say(self, number: int, body: str, *, author: Person = ANN) -> None:
        self.all_comments.setdefault(number, []).append(self._comment(author, body))

    def verdict(
        self, commit: str, name: str, state: VerdictState, *, tail: str | None = None
    ) -> None:
        step = "Run tests" if tail else None
        self.all_verdicts.setdefault(commit, {})[name] = Verdict(
            name, state, commit, f"{URL}/runs/{name}", step, tail
        )

    def note(self, number: int, body: str, *, author: Person = ANN, path: str = "a.txt") -> str:
        found = f"T{next(self.numbers)}"
        thread = Thread(found, path, 1, False, (self._comment(author, body),))
        self.all_threads.setdefault(number, []).append(thread)
        return found

    def review(
        self, number: int, state: ReviewState, body: str = "", *, author: Person = ANN
    ) -> None:
        found = f"R{next(self.numbers)}"
        head = self.pulls[number].head
        self.all_reviews.setdefault(number, []).append(
            Review(found, author, state, body, head, f"{URL}/pulls/{number}#{found}", "1")
        )

    def merge_by_hand(self, number: int) -> str:
        return self._merged(number)

    def close_by_hand(self, number: int) -> None:
        if number in self.all_issues:
            self.all_issues[number] = replace(self.all_issues[number], is_open=False)
        else:
            self.pulls[number] = replace(self.pulls[number], is_open=False)

    def reopen_by_hand(self, number: int) -> None:
        self.all_issues[number] = replace(self.all_issues[number], is_open=True)

    def marked(self, number: int) -> list[str]:
        """The bodies of the team's own comments on an issue or pull request."""
        return [each.body for each in self.all_comments.get(number, []) if each.author == TEAM]

    def _comment(self, author: Person, body: str) -> Comment:
        found = next(self.numbers)
        return Comment(f"C{found}", author, body, f"{URL}/c/{found}", "1")

    def _merged(self, number: int) -> str:
        commit = f"{next(self.numbers):040x}"
        pull = self.pulls[number]
        self.branches[pull.base] = commit
        self.pulls[number] = replace(pull, is_open=False, merged=True, merge_commit=commit)
        return commit

    def now(self, pull: PullRequest) -> PullRequest:
        """A pull request with what its branches are now."""
        head = self.branches.get(pull.branch, pull.head) if pull.is_open else pull.head
        clean = pull.branch not in self.conflicting
        return replace(pull, head=head, mergeable=clean if pull.is_open else None)

    def count(self) -> Counter[str]:
        """How often each kind of write was made."""
        return Counter(each.split()[0] for each in self.writes)

    def about_to(self, what: str) -> None:
        """Note a write; the worker may be killed before it."""
        if self.raises:
            raise self.raises.pop(0)
        if self.kill_at == len(self.writes) and not self.kill_after:
            self.kill_at = None
            raise Killed(what)
        if self.kill_every and not self.kill_after and what not in self.killed:
            self.killed.add(what)
            raise Killed(what)
        self.writes.append(what)

    def done(self) -> None:
        """The write has happened; the worker may be killed now."""
        if self.kill_after and self.kill_at == len(self.writes) - 1:
            self.kill_at = None
            raise Killed(self.writes[-1])
        if self.kill_every and self.kill_after and self.writes[-1] not in self.killed:
            self.killed.add(self.writes[-1])
            raise Killed(self.writes[-1])


class MemoryPushes:
    """What moves branches of a forge in memory. Fetched branches are what they are."""

    def __init__(self, forge: MemoryForge) -> None:
        self._forge = forge

    def push(self, branch: str, commit: str, *, expected: str | None) -> None:
        """Move a branch that is where it is expected."""
        self._forge.about_to(f"push {branch} {commit[:8]}")
        if self._forge.branches.get(branch) not in (expected, commit):
            raise BranchMoved(f"The branch {branch} was changed.")
        self._forge.branches[branch] = commit
        self._forge.done()

    def fetch(self, branch: str) -> str:
        """Return where a branch is."""
        return self._forge.branches[branch]


class MemoryClient:
    """A client of a forge in memory."""

    def __init__(self, forge: MemoryForge, me: Person = TEAM) -> None:
        self._forge = forge
        self._me = me
        self.budget = RequestBudget()

    def allowance(self) -> Allowance:
        return Allowance(self._forge.left, self._forge.resets_s)

    def _read(self, what: str) -> MemoryForge:
        self.budget.take()
        self._forge.reads.append(what)
        if self._forge.raises:
            raise self._forge.raises.pop(0)
        return self._forge

    async def me(self) -> Person:
        self._read("me")
        return self._me

    async def repository(self) -> Repository:
        self._read("repository")
        return Repository("acme", "shop", "main", URL, f"{URL}.git", may_push=True)

    async def missing_rights(self) -> list[str]:
        return []

    async def issues(self, query: IssueQuery) -> list[Issue]:
        found = self._read("issues").all_issues.values()
        wanted = set(query.labels)
        return [each for each in found if each.is_open and wanted <= set(each.labels)]

    async def issue(self, number: int) -> Issue:
        found = self._read(f"issue {number}").all_issues.get(number)
        if found is None:
            raise NotFound(f"There is no issue {number}.")
        return found

    async def comments(self, number: int) -> list[Comment]:
        return [*self._read(f"comments {number}").all_comments.get(number, [])]

    async def comment(self, number: int, body: str) -> Comment:
        self._forge.about_to(f"comment {number}")
        made = self._forge._comment(self._me, body)
        self._forge.all_comments.setdefault(number, []).append(made)
        self._forge.done()
        return made

    async def edit_comment(self, comment_id: str, body: str) -> None:
        self._forge.about_to(f"edit {comment_id}")
        for rows in self._forge.all_comments.values():
            rows[:] = [replace(c, body=body) if c.id == comment_id else c for c in rows]
        self._forge.done()

    async def set_labels(
        self, number: int, *, add: tuple[str, ...] = (), remove: tuple[str, ...] = ()
    ) -> None:
        self._forge.about_to(f"labels {number}")
        issue = self._forge.all_issues[number]
        labels = {*issue.labels, *add} - {*remove}
        self._forge.all_issues[number] = replace(issue, labels=tuple(sorted(labels)))
        self._forge.done()

    async def close_issue(self, number: int) -> None:
        self._forge.about_to(f"close_issue {number}")
        self._forge.close_by_hand(number)
        self._forge.done()

    async def branch_head(self, branch: str) -> str | None:
        return self._read(f"branch {branch}").branches.get(branch)

    async def delete_branch(self, branch: str) -> None:
        self._forge.about_to(f"delete {branch}")
        self._forge.branches.pop(branch, None)
        self._forge.done()

    async def pulls_of_branch(self, branch: str) -> list[PullRequest]:
        found = self._read(f"pulls_of {branch}").pulls.values()
        return [self._forge.now(each) for each in reversed([*found]) if each.branch == branch]

    async def open_pulls(self) -> list[PullRequest]:
        found = self._read("open_pulls").pulls.values()
        return [self._forge.now(each) for each in found if each.is_open]

    async def pull(self, number: int) -> PullRequest:
        found = self._read(f"pull {number}").pulls.get(number)
        if found is None:
            raise NotFound(f"There is no pull request {number}.")
        return self._forge.now(found)

    async def open_pull(
        self, *, title: str, body: str, branch: str, base: str, draft: bool = False
    ) -> PullRequest:
        self._forge.about_to(f"open_pull {branch}")
        pulls = self._forge.pulls
        if any(each.is_open and each.branch == branch for each in pulls.values()):
            raise Conflict("A pull request is open from this branch.")
        number = next(self._forge.numbers)
        pulls[number] = PullRequest(
            number, title, body, self._me, f"{URL}/pulls/{number}", branch,
            self._forge.branches[branch], base, is_open=True, merged=False, mergeable=True,
            draft=draft,
        )  # fmt: skip
        self._forge.done()
        return pulls[number]

    async def edit_pull(
        self, number: int, *, title: str | None = None, body: str | None = None
    ) -> None:
        self._forge.about_to(f"edit_pull {number}")
        pull = self._forge.pulls[number]
        self._forge.pulls[number] = replace(pull, title=title or pull.title, body=body or pull.body)
        self._forge.done()

    async def close_pull(self, number: int) -> None:
        self._forge.about_to(f"close_pull {number}")
        self._forge.close_by_hand(number)
        self._forge.done()

    async def merge_pull(self, number: int, *, head: str, method: MergeMethod) -> str:
        self._forge.about_to(f"merge {number}")
        pull = self._forge.now(self._forge.pulls[number])
        if pull.head != head:
            raise Conflict("The head has moved.")
        if self._forge.protected or not pull.is_open or not pull.mergeable:
            raise Refused(self._forge.protected or "not mergeable", reason="forge_refused")
        commit = self._forge._merged(number)
        self._forge.done()
        return commit

    async def reviews(self, number: int) -> list[Review]:
        return [*self._read(f"reviews {number}").all_reviews.get(number, [])]

    async def post_review(
        self, number: int, *, commit: str, body: str, comments: Sequence[LineRemark] = ()
    ) -> Review:
        self._forge.about_to(f"review {number}")
        found = next(self._forge.numbers)
        made = Review(
            f"R{found}", self._me, "commented", body, commit, f"{URL}/pulls/{number}#{found}", "1"
        )
        self._forge.all_reviews.setdefault(number, []).append(made)
        for each in comments:
            self._forge.note(number, each.body, author=self._me, path=each.path)
        self._forge.done()
        return made

    async def threads(self, number: int) -> list[Thread]:
        return [*self._read(f"threads {number}").all_threads.get(number, [])]

    async def reply(self, number: int, thread: Thread, body: str) -> Comment:
        self._forge.about_to(f"reply {thread.id}")
        made = self._forge._comment(self._me, body)
        self._change(number, thread.id, comments=lambda found: (*found.comments, made))
        self._forge.done()
        return made

    async def resolve(self, number: int, thread: Thread) -> bool:
        if not self._forge.resolves:
            return False
        self._forge.about_to(f"resolve {thread.id}")
        self._change(number, thread.id, resolved=lambda _: True)
        self._forge.done()
        return True

    def _change(self, number: int, thread_id: str, **fields: object) -> None:
        rows = self._forge.all_threads[number]
        for place, each in enumerate(rows):
            if each.id == thread_id:
                made = {key: value(each) for key, value in fields.items()}  # type: ignore[operator]
                rows[place] = replace(each, **made)

    async def verdicts(self, commit: str) -> list[Verdict]:
        found = self._read(f"verdicts {commit[:8]}").all_verdicts.get(commit, {})
        return [found[name] for name in sorted(found)]
