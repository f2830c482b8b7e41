"""People and CI that act on a real Gitea, for the contract suite."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import anyio.to_thread
import httpx2

from bullpen.runs.forge.clients.gitea import GiteaClient
from bullpen.team.forge.shown import ReviewState, VerdictState
from bullpen.testing.forge.checkout import Checkout
from bullpen.testing.forge.stage import Abilities, ForgeStage, LineNote, Role

from .gitea_server import GiteaServer

OWNER = "acme"
ROLES: tuple[Role, ...] = ("team", "reviewer", "stranger")
_EVENTS = {
    "approved": "APPROVED",
    "changes_requested": "REQUEST_CHANGES",
    "commented": "COMMENT",
    "dismissed": "APPROVED",
    "pending": "PENDING",
}


@dataclass(frozen=True, slots=True)
class Roles:
    """The token of each account."""

    tokens: Mapping[Role, str]
    owner_token: str

    @classmethod
    def made(cls, server: GiteaServer) -> Roles:
        """Create the accounts."""
        owner = server.account(OWNER)
        return cls({role: server.account(login_of(role)) for role in ROLES}, owner)


def login_of(role: Role) -> str:
    """Return the login of a role."""
    return f"the-{role}"


class GiteaStage(ForgeStage):
    """One repository of a person. The team may write in it, but is no administrator."""

    abilities = Abilities(
        refuses_lines=False, records_children=False, shows_logs=False, counts_requests=False
    )

    def __init__(self, server: GiteaServer, roles: Roles, name: str, folder: Path) -> None:
        self._server = server
        self._roles = roles
        self._name = name
        self._folder = folder
        self._clients: list[GiteaClient] = []
        self._at = f"/repos/{OWNER}/{name}"

    @property
    def owner(self) -> str:
        return OWNER

    @property
    def name(self) -> str:
        return self._name

    @property
    def clone_url(self) -> str:
        return f"{self._server.url}/{OWNER}/{self._name}.git"

    def login(self, role: Role) -> str:
        return login_of(role)

    def token(self, role: Role) -> str:
        return self._roles.tokens[role]

    def client(
        self,
        role: Role = "team",
        *,
        token: str | None = None,
        repository: str | None = None,
        page_size: int = 30,
    ) -> GiteaClient:
        client = GiteaClient(
            self._server.url,
            OWNER,
            repository or self._name,
            token or self.token(role),
            page_size=page_size,
        )
        self._clients.append(client)
        return client

    async def aclose(self) -> None:
        """Close what was opened."""
        for client in self._clients:
            await client.aclose()

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
        made = await self._call(
            "POST", "/issues", {"title": title, "body": body}, token=self.token(role)
        )
        number = int(made["number"])
        if labels:
            ids = [await self._label(label) for label in labels]
            await self._call("POST", f"/issues/{number}/labels", {"labels": ids})
        changes: dict[str, Any] = {}
        if assignee is not None:
            changes["assignees"] = [login_of(assignee)]
        if milestone is not None:
            changes["milestone"] = await self._milestone(milestone)
        if changes:
            await self._call("PATCH", f"/issues/{number}", changes)
        return number

    async def comment(self, number: int, *bodies: str, role: Role = "reviewer") -> None:
        for body in bodies:
            path = f"/issues/{number}/comments"
            await self._call("POST", path, {"body": body}, token=self.token(role))

    async def close_issue(self, number: int) -> None:
        await self._call("PATCH", f"/issues/{number}", {"state": "closed"})

    async def block(self, number: int, by: int) -> None:
        blocker = {"owner": OWNER, "repo": self._name, "index": by}
        await self._call("POST", f"/issues/{number}/dependencies", blocker)

    async def add_child(self, number: int, child: int) -> None:
        raise NotImplementedError("Gitea has no parts of issues.")

    async def push(
        self,
        branch: str,
        files: Mapping[str, str],
        *,
        base: str = "main",
        force: bool = False,
        role: Role = "team",
    ) -> str:
        checkout = Checkout(self._folder / role, self.clone_url, self.token(role), self.login(role))
        return await checkout.push(branch, files, base=base, force=force)

    async def protect(self, branch: str) -> None:
        rule = {"rule_name": branch, "required_approvals": 1, "enable_push": True}
        await self._call("POST", "/branch_protections", rule)

    async def merge(self, number: int) -> None:
        await self._call("POST", f"/pulls/{number}/merge", {"Do": "merge"})

    async def review(
        self,
        number: int,
        state: ReviewState | Literal["pending"],
        body: str = "",
        *,
        role: Role = "reviewer",
        notes: Sequence[LineNote] = (),
    ) -> None:
        comments = [
            {"path": each.path, "new_position": each.line, "body": each.body} for each in notes
        ]
        # Without a text it takes no review that is not submitted.
        text = body or ("later" if state == "pending" else "")
        asked = {"event": _EVENTS[state], "body": text, "comments": comments}
        path = f"/pulls/{number}/reviews"
        made = await self._call("POST", path, asked, token=self.token(role))
        if state == "dismissed":
            await self._call("POST", f"{path}/{made['id']}/dismissals", {"message": "no"})

    async def answer(self, number: int, note: str, *bodies: str, role: Role = "reviewer") -> None:
        begun = await self._note(number, note)
        form = {
            "origin": "diff",
            "side": "proposed",
            "line": str(begun["position"]),
            "path": begun["path"],
            "reply": str(begun["pull_request_review_id"]),
            "single_review": "true",
            "latest_commit_id": begun["commit_id"],
        }
        sent = [{**form, "content": body} for body in bodies]
        page = f"/{OWNER}/{self._name}/pulls/{number}/files/reviews/comments"
        # Without the front end it answers with an error after it kept the comment.
        await anyio.to_thread.run_sync(partial(self._press, login_of(role), page, sent))
        shown = await self.notes(number)
        assert {each["body"] for each in shown} >= set(bodies), "an answer is missing"

    def _press(self, login: str, page: str, forms: list[dict[str, str]]) -> None:
        """Send forms of a page: the interface has no call for them in all versions."""
        with httpx2.Client(base_url=self._server.url, timeout=60, trust_env=False) as browser:
            entered = browser.post("/user/login", data={"user_name": login, "password": login * 2})
            assert entered.is_redirect, "the account cannot sign in"
            for form in forms:
                browser.post(page, data=form)

    async def resolve(self, number: int, note: str) -> None:
        begun = await self._note(number, note)
        await self._call("POST", f"/pulls/comments/{begun['id']}/resolve")

    async def verdict(
        self,
        commit: str,
        name: str,
        state: VerdictState,
        *,
        step: str | None = None,
        log: str = "",
    ) -> None:
        told = {"context": name, "state": state, "target_url": "https://ci.example/job"}
        if log:
            # CI elsewhere can tell one line.
            told["description"] = log.splitlines()[-1]
        await self._call("POST", f"/statuses/{commit}", told)

    async def hook(self, url: str, secret: str, *, instead_of: int | None = None) -> int:
        """Let Gitea tell an address what happens here, as a person sets it up; its number."""
        config = {"url": url, "secret": secret, "content_type": "json"}
        made = {"type": "gitea", "config": config, "events": ["issues_only"], "active": True}
        if instead_of is not None:
            await self._call("DELETE", f"/hooks/{instead_of}")
        return int((await self._call("POST", "/hooks", made))["id"])

    async def send_again(self, hook: int, delivery: str) -> None:
        """Press the button that sends a delivery of a webhook once more."""
        page = f"/{OWNER}/{self._name}/settings/hooks/{hook}/replay/{delivery}"
        await anyio.to_thread.run_sync(partial(self._press, OWNER, page, [{}]))

    async def notes(self, number: int) -> list[dict[str, Any]]:
        """Return all comments on lines, as the server has them."""
        found: list[dict[str, Any]] = []
        reviews = await self._call("GET", f"/pulls/{number}/reviews?limit=50")
        for review in reviews:
            path = f"/pulls/{number}/reviews/{review['id']}/comments"
            found += await self._call("GET", path)
        return found

    async def _note(self, number: int, note: str) -> dict[str, Any]:
        return next(each for each in await self.notes(number) if each["body"] == note)

    async def _label(self, name: str) -> int:
        for each in await self._call("GET", "/labels?limit=50"):
            if each["name"] == name:
                return int(each["id"])
        made = await self._call("POST", "/labels", {"name": name, "color": "#00aabb"})
        return int(made["id"])

    async def _milestone(self, title: str) -> int:
        for each in await self._call("GET", f"/milestones?name={quote(title)}"):
            if each["title"] == title:
                return int(each["id"])
        return int((await self._call("POST", "/milestones", {"title": title}))["id"])

    async def _call(self, method: str, path: str, body: object = None, *, token: str = "") -> Any:
        ask = partial(
            self._server.call,
            method,
            self._at + path,
            body,
            token=token or self._roles.owner_token,
        )
        answer = await anyio.to_thread.run_sync(ask)
        return answer.json() if answer.content else None


@asynccontextmanager
async def open_stage(
    server: GiteaServer, roles: Roles, folder: Path, *, rights: str = "write"
) -> AsyncIterator[GiteaStage]:
    """Yield a new repository. The team has the rights named, the reviewer may write."""
    name = server.unused("shop")
    stage = GiteaStage(server, roles, name, folder)
    made = {"name": name, "auto_init": True, "default_branch": "main", "private": False}
    ask = partial(server.call, token=roles.owner_token)
    await anyio.to_thread.run_sync(ask, "POST", "/user/repos", made)
    for role, given in (("team", rights), ("reviewer", "write")):
        path = f"/repos/{OWNER}/{name}/collaborators/the-{role}"
        await anyio.to_thread.run_sync(ask, "PUT", path, {"permission": given})
    try:
        yield stage
    finally:
        await stage.aclose()
