"""A repository on Gitea or Forgejo, by its own interface over HTTP."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from urllib.parse import quote

import anyio
import httpx2

from bullpen.errors import Conflict, NotFound, Refused
from bullpen.runs.forge.clients.gitea_answers import (
    BranchAnswer,
    CommentAnswer,
    IssueAnswer,
    Named,
    PullAnswer,
    Repo,
    with_draft_mark,
    without_draft_mark,
)
from bullpen.runs.forge.clients.gitea_people import GiteaPeople
from bullpen.runs.forge.clients.gitea_requests import GiteaRequests, Query
from bullpen.runs.forge.clients.gitea_reviews import GiteaReviews
from bullpen.runs.forge.clients.gitea_verdicts import verdicts_of
from bullpen.runs.forge.contract import LOOK_THERE, Allowance, MergeMethod, TryLater
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

SETTLE_S = 5.0
"""How long a pull request must not be mergeable until that is believed: while Gitea works it out,
it says the same."""

_MERGES_MAX = 10
_LABEL_COLOUR = "#5319e7"
_PROBES: Mapping[str, tuple[str, str, dict[str, str] | None]] = {
    "write:issue": ("PATCH", "/issues/comments/0", {"body": "-"}),
    "write:repository": ("DELETE", "/branches/bullpen/no/such-branch", None),
}
"""Requests that change nothing, by the right that each needs."""

_SCOPES = re.compile(r"required=\[([a-z:, ]{3,80})\]")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class GiteaClient:
    """A `ForgeClient` for one repository. Close it with `aclose`."""

    def __init__(
        self,
        url: str,
        owner: str,
        name: str,
        token: str,
        *,
        page_size: int = 50,
        transport: httpx2.AsyncBaseTransport | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._requests = GiteaRequests(
            url, token, page_size=page_size, transport=transport, monotonic=monotonic
        )
        self._monotonic = monotonic
        self._sleep = sleep
        self._at = f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}"
        self._people = GiteaPeople(self._requests, self._at, monotonic=monotonic)
        self._reviews = GiteaReviews(self._requests, self._at, self._people)
        # The address of the repository's page.
        self._page: str | None = None
        # Since when which head could not be merged onto which base.
        self._unmergeable: dict[int, tuple[str, str, float]] = {}

    def __repr__(self) -> str:
        return f"GiteaClient({self._requests!r}, {self._at!r})"

    async def aclose(self) -> None:
        """Close all connections."""
        await self._requests.aclose()

    @property
    def budget(self) -> RequestBudget:
        """Return what limits its requests."""
        return self._requests.budget

    def allowance(self) -> Allowance:
        """Return what the last answer said about the limit of requests."""
        return self._requests.allowance()

    async def me(self) -> Person:
        """Return whose token it is."""
        return await self._people.person(await self._people.our_login())

    async def repository(self) -> Repository:
        """Return the repository."""
        repo = await self._repo()
        may_push = repo.permissions is not None and repo.permissions.push
        return Repository(
            owner=repo.owner.login,
            name=repo.name,
            default_branch=repo.default_branch,
            url=repo.html_url,
            clone_url=repo.clone_url,
            may_push=may_push and not repo.archived and not repo.mirror,
        )

    async def missing_rights(self) -> list[str]:
        """Return which rights the token lacks, as the server names them. Nothing is changed."""
        missing = []
        for needed, (method, path, body) in _PROBES.items():
            try:
                await self._requests.do(method, f"{self._at}{path}", body)
            except (NotFound, Conflict, TryLater):
                # It has the right. Some versions fail where there is no such thing.
                continue
            except Refused as refused:
                said = _SCOPES.search(refused.message)
                if said is not None:
                    missing.append(said[1])
                elif "answered 403" in refused.message:
                    missing.append(needed)
        return missing

    # Issues

    async def issues(self, query: IssueQuery) -> list[Issue]:
        """Return the open issues that a query names, oldest first, without pull requests."""
        asked: dict[str, str | int] = {"state": "open", "type": "issues"}
        # The server leaves out labels and milestones that it does not know, so both are checked.
        if query.labels and not any("," in each for each in query.labels):
            asked["labels"] = ",".join(query.labels)
        if query.milestone is not None and "," not in query.milestone:
            asked["milestones"] = query.milestone
        if query.assignee is not None:
            asked["assigned_by"] = query.assignee
        if query.query:
            asked["q"] = query.query
        try:
            found = await self._requests.all(IssueAnswer, f"{self._at}/issues", asked)
        except NotFound:
            # So it answers if nobody has the name of the assignee.
            await self._repo()
            return []
        wanted = [each for each in found if _is_asked_for(each, query)]
        return [await self._issue(each) for each in sorted(wanted, key=lambda one: one.number)]

    async def issue(self, number: int) -> Issue:
        """Return one issue, open or closed, with what it is blocked by."""
        answer = await self._read_issue(number)
        if answer.pull_request is not None:
            raise NotFound(f"#{number} is a pull request, not an issue.", remedy=LOOK_THERE)
        repo = f"{self._at}/issues/{number}/dependencies"
        try:
            blockers = await self._requests.all(IssueAnswer, repo)
        except NotFound:
            # A repository may have no dependencies.
            blockers = []
        here = [each.number for each in blockers if _is_same_repository(each, answer)]
        return await self._issue(answer, tuple(sorted(here)))

    async def comments(self, number: int) -> list[Comment]:
        """Return the comments on an issue or pull request, oldest first."""
        try:
            found = await self._requests.all(CommentAnswer, f"{self._at}/issues/{number}/comments")
        except TryLater:
            # The server fails if there is no such issue.
            await self._read_issue(number)
            raise
        return [await self._people.comment(each) for each in sorted(found, key=lambda one: one.id)]

    async def comment(self, number: int, body: str) -> Comment:
        """Write a comment on an issue or pull request."""
        path = f"{self._at}/issues/{number}/comments"
        try:
            made = await self._requests.send(CommentAnswer, "POST", path, {"body": body})
        except TryLater:
            await self._read_issue(number)
            raise
        return await self._people.comment(made)

    async def edit_comment(self, comment_id: str, body: str) -> None:
        """Replace the text of a comment."""
        path = f"{self._at}/issues/comments/{_number(comment_id, 'comment')}"
        await self._requests.do("PATCH", path, {"body": body})

    async def set_labels(
        self, number: int, *, add: tuple[str, ...] = (), remove: tuple[str, ...] = ()
    ) -> None:
        """Add and remove labels. A label that the repository lacks is created first."""
        there = {each.name: each.id for each in (await self._read_issue(number)).labels}
        path = f"{self._at}/issues/{number}/labels"
        missing = [name for name in dict.fromkeys(add) if name not in there]
        if missing:
            ids = await self._label_ids(missing)
            await self._requests.do("POST", path, {"labels": ids})
        for name in dict.fromkeys(remove):
            if name in there and name not in add:
                try:
                    await self._requests.do("DELETE", f"{path}/{there[name]}")
                except NotFound:
                    # Somebody else was faster.
                    continue

    async def close_issue(self, number: int) -> None:
        """Close an issue. It is no error if it is closed already."""
        if (await self._read_issue(number)).state == "open":
            path = f"{self._at}/issues/{number}"
            await self._requests.do("PATCH", path, {"state": "closed"})

    # Branches

    async def branch_head(self, branch: str) -> str | None:
        """Return the commit of a branch; None if there is no such branch."""
        try:
            found = await self._requests.get(BranchAnswer, self._branch(branch))
        except NotFound:
            await self._repo()
            return None
        return found.commit.id if found.name == branch else None

    async def delete_branch(self, branch: str) -> None:
        """Delete a branch. It is no error if it is gone already."""
        try:
            await self._requests.do("DELETE", self._branch(branch))
        except NotFound:
            await self._repo()

    # Pull requests

    async def pulls_of_branch(self, branch: str) -> list[PullRequest]:
        """Return the pull requests from a branch of this repository, open or not, newest first."""
        found = await self._pulls({"state": "all"})
        ours = [each for each in found if _branch_of(each) == branch]
        return [await self._pull(each) for each in sorted(ours, key=lambda one: -one.number)]

    async def open_pulls(self) -> list[PullRequest]:
        """Return all open pull requests of this repository, oldest first."""
        found = await self._pulls({"state": "open"})
        return [await self._pull(each) for each in sorted(found, key=lambda one: one.number)]

    async def pull(self, number: int) -> PullRequest:
        """Return one pull request."""
        return await self._pull(await self._read_pull(number))

    async def open_pull(
        self, *, title: str, body: str, branch: str, base: str, draft: bool = False
    ) -> PullRequest:
        """Open a pull request. Raises Conflict if one is open from this branch to this base."""
        made = await self._requests.send(
            PullAnswer,
            "POST",
            f"{self._at}/pulls",
            {
                "title": with_draft_mark(title) if draft else title,
                "body": body,
                "head": branch,
                "base": base,
            },
        )
        return await self._pull(made)

    async def edit_pull(
        self, number: int, *, title: str | None = None, body: str | None = None
    ) -> None:
        """Change the title or the text of a pull request."""
        changed: dict[str, str] = {}
        if title is not None:
            draft = (await self._read_pull(number)).draft
            changed["title"] = with_draft_mark(title) if draft else title
        if body is not None:
            changed["body"] = body
        if changed:
            await self._requests.do("PATCH", f"{self._at}/pulls/{number}", changed)

    async def close_pull(self, number: int) -> None:
        """Close a pull request without merging it. It is no error if it is closed already."""
        if (await self._read_pull(number)).state == "open":
            await self._requests.do("PATCH", f"{self._at}/pulls/{number}", {"state": "closed"})

    async def merge_pull(self, number: int, *, head: str, method: MergeMethod) -> str:
        """Merge a pull request whose head is still `head`; return the commit on the base."""
        await self._merge(number, head, {"Do": method, "head_commit_id": head})
        merged = (await self._read_pull(number)).merge_commit_sha
        if not merged:
            raise TryLater(f"#{number} was merged, but the commit is not shown yet.")
        return merged

    async def _merge(self, number: int, head: str, asked: object) -> None:
        """Merge. While the server works out whether it can, it refuses with the same words."""
        was_mergeable = False
        for attempt in range(_MERGES_MAX):
            try:
                await self._requests.do("POST", f"{self._at}/pulls/{number}/merge", asked)
                return
            except (NotFound, Refused, Conflict) as error:
                shown = await self._read_pull(number)
                if shown.head.sha != head and shown.state == "open":
                    moved = (
                        f"The head of #{number} is {shown.head.sha[:12]}, no longer {head[:12]}."
                    )
                    raise Conflict(moved, remedy=LOOK_THERE) from None
                if not isinstance(error, Refused):
                    # A closed one is not found, and files in conflict are the server's conflict.
                    why = f"#{number} cannot be merged: {error.message}"
                    raise Refused(why, reason="forge_refused", remedy=LOOK_THERE) from None
                is_final = shown.state != "open" or shown.draft or was_mergeable
                if is_final or attempt == _MERGES_MAX - 1:
                    raise
                was_mergeable = shown.mergeable
            if not was_mergeable:
                await self._sleep(SETTLE_S / _MERGES_MAX)

    # Reviews

    async def reviews(self, number: int) -> list[Review]:
        """Return the reviews of a pull request, oldest first, without those not submitted yet."""
        return await self._reviews.reviews(number)

    async def post_review(
        self, number: int, *, commit: str, body: str, comments: Sequence[LineRemark] = ()
    ) -> Review:
        """Post a review of a commit that neither approves nor refuses, with comments on lines."""
        return await self._reviews.post(number, commit, body, comments)

    async def threads(self, number: int) -> list[Thread]:
        """Return the threads on lines of a pull request, oldest first, with all their comments."""
        return await self._reviews.threads(number)

    async def reply(self, number: int, thread: Thread, body: str) -> Comment:
        """Answer in a thread."""
        return await self._reviews.reply(number, thread, body)

    async def resolve(self, number: int, thread: Thread) -> bool:
        """Mark a thread as resolved. Returns False if this forge has no call for that."""
        return await self._reviews.resolve(number, thread)

    async def verdicts(self, commit: str) -> list[Verdict]:
        """Return the newest verdict of each job of CI about a commit, by name."""
        if not _COMMIT.fullmatch(commit):
            raise NotFound(f"{commit!r} is not a commit.", remedy=LOOK_THERE)
        if self._page is None:
            self._page = (await self._repo()).html_url
        page = f"{self._page}/commit/{commit}"
        return await verdicts_of(self._requests, self._at, commit, page=page)

    # What the server says

    async def _repo(self) -> Repo:
        return await self._requests.get(Repo, self._at)

    async def _read_issue(self, number: int) -> IssueAnswer:
        return await self._requests.get(IssueAnswer, f"{self._at}/issues/{number}")

    async def _read_pull(self, number: int) -> PullAnswer:
        return await self._requests.get(PullAnswer, f"{self._at}/pulls/{number}")

    async def _pulls(self, query: Query) -> list[PullAnswer]:
        return await self._requests.all(PullAnswer, f"{self._at}/pulls", query)

    def _branch(self, branch: str) -> str:
        if ".." in branch or branch.startswith("/"):
            raise NotFound(f"{branch!r} is not a name of a branch.", remedy=LOOK_THERE)
        return f"{self._at}/branches/{quote(branch, safe='/')}"

    async def _label_ids(self, names: Iterable[str]) -> list[int]:
        """Return the numbers of labels, made where they are missing."""
        known = {
            each.name: each.id for each in await self._requests.all(Named, f"{self._at}/labels")
        }
        for name in names:
            if name not in known:
                label = {"name": name, "color": _LABEL_COLOUR}
                made = await self._requests.send(Named, "POST", f"{self._at}/labels", label)
                known[name] = made.id
        return [known[name] for name in names]

    # Translations

    async def _issue(self, answer: IssueAnswer, blocked_by: tuple[int, ...] = ()) -> Issue:
        return Issue(
            number=answer.number,
            title=answer.title,
            body=answer.body,
            author=await self._people.author(answer),
            is_open=answer.state == "open",
            url=answer.html_url,
            updated=answer.updated_at,
            labels=tuple(each.name for each in answer.labels),
            assignees=tuple(each.login for each in answer.assignees),
            milestone=None if answer.milestone is None else answer.milestone.title,
            blocked_by=blocked_by,
        )

    async def _pull(self, answer: PullAnswer) -> PullRequest:
        return PullRequest(
            number=answer.number,
            title=without_draft_mark(answer.title) if answer.draft else answer.title,
            body=answer.body,
            author=await self._people.author(answer),
            url=answer.html_url,
            branch=_branch_of(answer),
            head=answer.head.sha,
            base=answer.base.ref,
            is_open=answer.state == "open",
            merged=answer.merged,
            mergeable=self._mergeable(answer),
            merge_commit=answer.merge_commit_sha if answer.merged else None,
            labels=tuple(each.name for each in answer.labels),
            draft=answer.draft,
            updated=answer.updated_at,
        )

    def _mergeable(self, answer: PullAnswer) -> bool | None:
        """Return whether it can be merged. "No" is also what the server says while it looks."""
        if answer.mergeable or answer.state != "open" or answer.draft:
            self._unmergeable.pop(answer.number, None)
            return True if answer.mergeable else None
        ends = answer.head.sha, answer.base.sha
        known = self._unmergeable.get(answer.number)
        if known is None or known[:2] != ends:
            self._unmergeable[answer.number] = (*ends, self._monotonic())
            return None
        return False if self._monotonic() - known[2] >= SETTLE_S else None


def _is_asked_for(issue: IssueAnswer, query: IssueQuery) -> bool:
    labels = {each.name for each in issue.labels}
    assignees = {each.login.casefold() for each in issue.assignees}
    milestone = None if issue.milestone is None else issue.milestone.title
    return (
        issue.pull_request is None
        and issue.state == "open"
        and labels.issuperset(query.labels)
        and (query.assignee is None or query.assignee.casefold() in assignees)
        and (query.milestone is None or query.milestone == milestone)
    )


def _is_same_repository(one: IssueAnswer, other: IssueAnswer) -> bool:
    if one.repository is None or other.repository is None:
        return False
    return one.repository.full_name == other.repository.full_name


def _branch_of(pull: PullAnswer) -> str:
    """Return the branch. That of another repository has its owner, as no branch here can have."""
    name = pull.head.label or pull.head.ref
    if pull.head.repo_id == pull.base.repo_id:
        return name
    owner = "" if pull.head.repo is None else pull.head.repo.owner.login
    return f"{owner}:{name}"


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise NotFound(f"There is no {what} {text[:40]!r}.", remedy=LOOK_THERE)
    return int(text)
