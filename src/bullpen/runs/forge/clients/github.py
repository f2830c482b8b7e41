"""GitHub, also GitHub Enterprise: its REST API, and GraphQL for threads on lines."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import httpx2

from bullpen.errors import Conflict, Invalid, NotFound, Refused
from bullpen.runs.forge.clients import github_records as records
from bullpen.runs.forge.clients import github_threads
from bullpen.runs.forge.clients.github_connection import GitHubConnection
from bullpen.runs.forge.clients.github_verdicts import GitHubVerdicts
from bullpen.runs.forge.contract import (
    LOOK_THERE,
    SUBMIT_FIRST,
    Allowance,
    ForgeClient,
    LinesRefused,
    MergeMethod,
    TryLater,
)
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

API = "https://api.github.com"
PAGE_SIZE = 100
"""The most that GitHub returns at once."""

SEARCH_MAX = 1_000
"""GitHub's search shows no more than this, of however many it found."""

TRUST_S = 600.0
"""How long the answer counts whether an account may write."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_LABEL_COLOR = "ededed"
_PROBES: Mapping[str, tuple[str, str, dict[str, str] | None]] = {
    "issues=write": ("PATCH", "/issues/comments/0", {"body": "-"}),
    "pull_requests=write": ("PATCH", "/pulls/0", {"title": "-"}),
    "contents=write": ("DELETE", "/git/refs/heads/bullpen/no/such-branch", None),
    "actions=read": ("GET", "/actions/jobs/0", None),
    "statuses=read": ("GET", f"/commits/{'0' * 40}/statuses", None),
}
"""Requests that change and find nothing, by the right that each needs."""

_NO_RIGHT = ("not accessible by", "Must have", "permission", "scope")
"""What GitHub says where a right is missing; without it, it finds nothing or has too few words."""

_NOT_SHOWN = ("could not be resolved", "part of the diff")
"""What GitHub says about a comment on a line or a file that its difference does not show."""

_DRAFT = "pending review"

_MAY_WRITE = frozenset({"admin", "maintain", "write"})


def api_of(host: str) -> str:
    """Return the address of the API of a GitHub."""
    return API if host in {"github.com", "www.github.com"} else f"https://{host}/api/v3"


class GitHub(ForgeClient):
    """One repository on GitHub, by one token."""

    def __init__(
        self,
        owner: str,
        name: str,
        token: str,
        *,
        api: str = API,
        page_size: int = PAGE_SIZE,
        monotonic: Callable[[], float] = time.monotonic,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        if not all(_NAME.fullmatch(each) and each.strip(".") for each in (owner, name)):
            raise Invalid(
                f"{owner}/{name} is not a repository of GitHub.", remedy="Use OWNER/NAME."
            )
        self._owner, self._name, self._size, self._monotonic = owner, name, page_size, monotonic
        self._connection = GitHubConnection(api, token, monotonic=monotonic, transport=transport)
        self._at = f"/repos/{owner}/{name}"
        self._verdicts = GitHubVerdicts(self._connection, self._at, page_size)
        self._labels: set[str] = set()
        self._trusted: dict[str, tuple[bool, float]] = {}
        self._me: Person | None = None

    def __repr__(self) -> str:
        return f"GitHub({self._owner}/{self._name}, {self._connection!r})"

    async def aclose(self) -> None:
        """Close all connections."""
        await self._connection.aclose()

    @property
    def budget(self) -> RequestBudget:
        return self._connection.budget

    def allowance(self) -> Allowance:
        return self._connection.allowance()

    async def me(self) -> Person:
        if self._me is None:
            try:
                login = (await self._connection.get("/user")).content["login"]
            except Refused as refused:
                # A token of an app is no user's; the other API tells its name.
                if "integration" not in refused.message:
                    raise
                login = await github_threads.viewer(self._connection)
            self._me = Person(login, (await self.repository()).may_push)
        return self._me

    async def repository(self) -> Repository:
        return records.repository((await self._connection.get(self._at)).content)

    async def missing_rights(self) -> list[str]:
        missing = []
        for needed, (method, path, body) in _PROBES.items():
            try:
                await self._connection.send(method, f"{self._at}{path}", body)
            except (NotFound, Conflict):
                continue
            except Refused as refused:
                if any(words in refused.message for words in _NO_RIGHT):
                    missing.append(self._connection.needed or needed)
        return missing

    # Issues

    async def issues(self, query: IssueQuery) -> list[Issue]:
        found = await (self._search(query) if query.query else self._list(query))
        found = [each for each in found if "pull_request" not in each]
        people = [await self._author(each) for each in found]
        issues = [records.issue(each, one) for each, one in zip(found, people, strict=True)]
        return sorted(issues, key=lambda each: each.number)

    async def _list(self, query: IssueQuery) -> list[dict[str, Any]]:
        words = {"state": "open", "sort": "created", "direction": "asc"}
        if query.labels:
            if any("," in each for each in query.labels):
                return await self._search(query)
            words["labels"] = ",".join(query.labels)
        if query.assignee:
            words["assignee"] = query.assignee
        if query.milestone:
            number = await self._milestone(query.milestone)
            if number is None:
                return []
            words["milestone"] = str(number)
        return await self._connection.pages(f"{self._at}/issues", self._size, words)

    async def _milestone(self, title: str) -> int | None:
        every = await self._connection.pages(f"{self._at}/milestones", self._size, {"state": "all"})
        return next((each["number"] for each in every if each["title"] == title), None)

    async def _search(self, query: IssueQuery) -> list[dict[str, Any]]:
        words = [f"repo:{self._owner}/{self._name}", "is:issue", "is:open"]
        words += [f"label:{_quoted(each)}" for each in query.labels]
        words += [f"assignee:{query.assignee}"] if query.assignee else []
        words += [f"milestone:{_quoted(query.milestone)}"] if query.milestone else []
        words += [query.query] if query.query else []
        params = {"q": " ".join(words), "sort": "created", "order": "asc"}
        found: list[dict[str, Any]] = []
        for page in range(1, SEARCH_MAX // self._size + 2):
            size = {"per_page": str(self._size), "page": str(page)}
            content = (await self._connection.get("/search/issues", {**params, **size})).content
            if content["incomplete_results"]:
                raise TryLater("GitHub did not finish the search for issues.")
            if content["total_count"] > SEARCH_MAX:
                raise Refused(
                    f"More than {SEARCH_MAX} issues fit the query; GitHub does not show them all.",
                    reason="forge_refused",
                    remedy="Narrow the query in [forge].",
                )
            found += content["items"]
            if len(content["items"]) < self._size or len(found) >= content["total_count"]:
                break
        # The words may name other repositories.
        return [each for each in found if self._is_ours(each) and each["state"] == "open"]

    async def issue(self, number: int) -> Issue:
        shown = (await self._connection.get(f"{self._at}/issues/{number}")).content
        if "pull_request" in shown:
            raise NotFound(
                f"#{number} of {self._owner}/{self._name} is a pull request.", remedy=LOOK_THERE
            )
        blocked: tuple[int, ...] = ()
        children: tuple[int, ...] = ()
        depends = shown.get("issue_dependencies_summary") or {}
        if depends.get("total_blocked_by", depends.get("blocked_by")):
            blocked = await self._numbers(f"{self._at}/issues/{number}/dependencies/blocked_by")
        if (shown.get("sub_issues_summary") or {}).get("total"):
            children = await self._numbers(f"{self._at}/issues/{number}/sub_issues")
        return records.issue(shown, await self._author(shown), blocked, children)

    async def _numbers(self, path: str) -> tuple[int, ...]:
        """Return the issues of this repository in a list; those of others have no task here."""
        found = await self._connection.pages(path, self._size)
        return tuple(each["number"] for each in found if self._is_ours(each))

    async def comments(self, number: int) -> list[Comment]:
        path = f"{self._at}/issues/{number}/comments"
        found = await self._connection.pages(path, self._size)
        return [records.comment(each, await self._author(each)) for each in found]

    async def comment(self, number: int, body: str) -> Comment:
        path = f"{self._at}/issues/{number}/comments"
        shown = await self._connection.send("POST", path, {"body": body})
        return records.comment(shown, await self._author(shown))

    async def edit_comment(self, comment_id: str, body: str) -> None:
        if not comment_id.isdecimal():
            raise NotFound(f"There is no comment {comment_id!r} on GitHub.", remedy=LOOK_THERE)
        path = f"{self._at}/issues/comments/{comment_id}"
        await self._connection.send("PATCH", path, {"body": body})

    async def set_labels(
        self, number: int, *, add: tuple[str, ...] = (), remove: tuple[str, ...] = ()
    ) -> None:
        path = f"{self._at}/issues/{number}/labels"
        # An unchanged list costs nothing; a request for each label that may be there would.
        shown = await self._connection.pages(path, self._size)
        there = {str(each["name"]).lower() for each in shown}
        missing = [name for name in dict.fromkeys(add) if name.lower() not in there]
        for name in missing:
            await self._create_label(name)
        if missing:
            await self._connection.send("POST", path, {"labels": missing})
        kept = {name.lower() for name in add}
        for name in dict.fromkeys(remove):
            if name.lower() in there - kept:
                # Somebody else may be faster.
                with suppress(NotFound):
                    await self._connection.send("DELETE", f"{path}/{quote(name, safe='')}")

    async def _create_label(self, name: str) -> None:
        if name.lower() in self._labels:
            return
        try:
            await self._connection.get(f"{self._at}/labels/{quote(name, safe='')}")
        except NotFound:
            try:
                label = {"name": name, "color": _LABEL_COLOR}
                await self._connection.send("POST", f"{self._at}/labels", label)
            except Conflict:
                # Somebody else created it now.
                pass
        self._labels.add(name.lower())

    async def close_issue(self, number: int) -> None:
        path = f"{self._at}/issues/{number}"
        await self._connection.send("PATCH", path, {"state": "closed"})

    # Branches

    async def branch_head(self, branch: str) -> str | None:
        try:
            path = f"{self._at}/git/ref/heads/{quote(branch, safe='/')}"
            shown = (await self._connection.get(path)).content
        except NotFound:
            # The repository may be what is not there.
            await self.repository()
            return None
        except Conflict:
            # It has no commit yet.
            return None
        return str(shown["object"]["sha"])

    async def delete_branch(self, branch: str) -> None:
        try:
            path = f"{self._at}/git/refs/heads/{quote(branch, safe='/')}"
            await self._connection.send("DELETE", path)
        except Refused as refused:
            if "Reference does not exist" not in refused.message:
                raise

    # Pull requests

    async def pulls_of_branch(self, branch: str) -> list[PullRequest]:
        words = {"head": f"{self._owner}:{branch}", "state": "all"}
        found = await self._pulls({**words, "sort": "created", "direction": "desc"})
        # The owner may have a second repository that came from this one.
        mine = [each for each in found if each.branch == branch]
        return sorted(mine, key=lambda each: each.number, reverse=True)

    async def open_pulls(self) -> list[PullRequest]:
        found = await self._pulls({"state": "open", "sort": "created", "direction": "asc"})
        return sorted(found, key=lambda each: each.number)

    async def _pulls(self, words: Mapping[str, str]) -> list[PullRequest]:
        found = await self._connection.pages(f"{self._at}/pulls", self._size, words)
        return [await self._pull(each) for each in found]

    async def pull(self, number: int) -> PullRequest:
        return await self._pull((await self._connection.get(f"{self._at}/pulls/{number}")).content)

    async def open_pull(
        self, *, title: str, body: str, branch: str, base: str, draft: bool = False
    ) -> PullRequest:
        wanted = {"title": title, "body": body, "head": branch, "base": base, "draft": draft}
        return await self._pull(await self._connection.send("POST", f"{self._at}/pulls", wanted))

    async def edit_pull(
        self, number: int, *, title: str | None = None, body: str | None = None
    ) -> None:
        changes = {"title": title, "body": body}
        wanted = {name: value for name, value in changes.items() if value is not None}
        await self._connection.send("PATCH", f"{self._at}/pulls/{number}", wanted)

    async def close_pull(self, number: int) -> None:
        await self._connection.send("PATCH", f"{self._at}/pulls/{number}", {"state": "closed"})

    async def merge_pull(self, number: int, *, head: str, method: MergeMethod) -> str:
        wanted = {"sha": head, "merge_method": method}
        path = f"{self._at}/pulls/{number}/merge"
        return str((await self._connection.send("PUT", path, wanted))["sha"])

    # Reviews

    async def reviews(self, number: int) -> list[Review]:
        found = await self._connection.pages(f"{self._at}/pulls/{number}/reviews", self._size)
        reviews = [records.review(each, await self._author(each)) for each in found]
        return [each for each in reviews if each is not None]

    async def post_review(
        self, number: int, *, commit: str, body: str, comments: Sequence[LineRemark] = ()
    ) -> Review:
        notes = [
            {"path": each.path, "line": each.line, "side": "RIGHT", "body": each.body}
            for each in comments
        ]
        wanted = {"commit_id": commit, "event": "COMMENT", "body": body, "comments": notes}
        try:
            shown = await self._connection.send(
                "POST", f"{self._at}/pulls/{number}/reviews", wanted
            )
        except Refused as refused:
            if notes and any(words in refused.message for words in _NOT_SHOWN):
                raise LinesRefused(
                    refused.message, reason="forge_refused", remedy=LOOK_THERE
                ) from None
            if _DRAFT in refused.message:
                raise Conflict(refused.message, remedy=SUBMIT_FIRST) from None
            raise
        made = records.review(shown, await self._author(shown))
        if made is None:
            raise TryLater(f"The review of #{number} is not submitted.")
        return made

    async def threads(self, number: int) -> list[Thread]:
        return await github_threads.threads(
            self._connection, self._owner, self._name, number, self._size
        )

    async def reply(self, number: int, thread: Thread, body: str) -> Comment:
        first = int(thread.comments[0].id)
        path = f"{self._at}/pulls/{number}/comments/{first}/replies"
        shown = await self._connection.send("POST", path, {"body": body})
        return records.comment(shown, await self._author(shown))

    async def resolve(self, number: int, thread: Thread) -> bool:
        await github_threads.resolve(self._connection, thread.id)
        return True

    async def verdicts(self, commit: str) -> list[Verdict]:
        return await self._verdicts.of(commit)

    # People

    async def _pull(self, shown: Mapping[str, Any]) -> PullRequest:
        return records.pull(shown, await self._author(shown), self._owner, self._name)

    async def _author(self, shown: Mapping[str, Any]) -> Person:
        if shown.get("author_association") is not None or shown.get("user") is None:
            return records.author(shown)
        return records.author(shown, await self._may_write(records.login_of(shown["user"])))

    async def _may_write(self, login: str) -> bool:
        known = self._trusted.get(login)
        if known is not None and known[1] > self._monotonic():
            return known[0]
        path = f"{self._at}/collaborators/{quote(login, safe='')}/permission"
        try:
            may = (await self._connection.get(path)).content["permission"] in _MAY_WRITE
        except (NotFound, Refused):
            may = False
        self._trusted[login] = may, self._monotonic() + TRUST_S
        return may

    def _is_ours(self, shown: Mapping[str, Any]) -> bool:
        tail = f"/repos/{self._owner}/{self._name}".lower()
        return str(shown["repository_url"]).lower().endswith(tail)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
