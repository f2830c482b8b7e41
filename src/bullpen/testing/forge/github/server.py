"""The stand-in itself: GitHub's API and git on one port of this machine.

Every request and every answer must fit GitHub's published description. What does not is in
`violations`; such a request gets no answer that a client could go on with.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal
from urllib.parse import urlencode

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bullpen.testing.forge.github import published_rules, rest, review_calls
from bullpen.testing.forge.github.bare_repository import BareRepository
from bullpen.testing.forge.github.graph import Graph
from bullpen.testing.forge.github.published_rules import Operation
from bullpen.testing.forge.github.shown import Shown
from bullpen.testing.forge.github.state import Account, Permission, RepositoryState

LIMITS = {"core": 5_000, "graphql": 5_000, "search": 30}
RESET_S = 3_600
START_S = 30.0
"""How long the server may take to start."""

_CALLS = {**rest.CALLS, **review_calls.CALLS}
_METHODS = ["GET", "POST", "PATCH", "PUT", "DELETE"]
_SECONDARY = (
    "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
)


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that came, and how it was answered."""

    operation: str
    method: str
    path: str
    status: int
    login: str | None


@dataclass(slots=True)
class Fault:
    """The n-th write from now on fails, before or after it is carried out.

    With status 0 the connection is cut off.
    """

    nth: int
    after: bool
    status: int


class GitHubStandIn:
    """A GitHub with one or more repositories for the duration of a `with` block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.repositories: dict[str, RepositoryState] = {}
        self.accounts: dict[str, Account] = {}
        self.seen: list[Seen] = []
        self.violations: list[str] = []
        self.faults: list[Fault] = []
        self.read_faults: list[int] = []
        self.limited: Literal["primary", "secondary", ""] = ""
        self.limited_s: int | None = None
        self.lock = threading.RLock()
        self._ids = itertools.count(1_001)
        self._left: Counter[tuple[str, str]] = Counter()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.origin = f"http://127.0.0.1:{self.port}"
        app = Starlette(routes=[Route("/{path:path}", self._answer, methods=_METHODS)])
        config = uvicorn.Config(app, log_level="critical", lifespan="off", ws="none")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="stand-in for GitHub", daemon=True
        )

    def __enter__(self) -> GitHubStandIn:
        self._thread.start()
        deadline = time.monotonic() + START_S
        while not self._server.started:
            if time.monotonic() > deadline:
                raise TimeoutError("the stand-in for GitHub did not start")
            time.sleep(0.01)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.should_exit = True
        self._thread.join(START_S)
        self._socket.close()

    # Controls

    def account(self, login: str, permission: Permission, *, is_app: bool = False) -> Account:
        """Add an account; its token is `ghp_` and 36 more."""
        token = "ghp_" + hashlib.sha256(login.encode()).hexdigest()[:36]
        number = len(self.accounts) + 1
        made = Account(number, login, token, permission, is_app)
        self.accounts[login] = made
        for each in self.repositories.values():
            each.accounts[login] = made
        return made

    def repository(self, owner: str, name: str) -> RepositoryState:
        """Add a repository whose `main` has the file `README.md`."""
        git = BareRepository(self._folder, owner, name)
        git.begin({"README.md": f"# {name}\n"})
        made = RepositoryState(owner, name, git, self._ids)
        made.accounts = dict(self.accounts)
        self.repositories[f"{owner}/{name}".lower()] = made
        return made

    def fail_write(self, nth: int = 1, *, after: bool = False, status: int = 502) -> None:
        """Let the n-th write from now on fail."""
        self.faults.append(Fault(nth, after, status))

    def fail_read(self, status: int = 502) -> None:
        """Let the next read fail."""
        self.read_faults.append(status)

    def limit(self, kind: Literal["primary", "secondary", ""], seconds: int | None = None) -> None:
        """Refuse all requests by a limit, or with an empty kind none any more.

        Without seconds, a secondary limit does not say how long it lasts.
        """
        self.limited, self.limited_s = kind, seconds

    def count(self, operation: str = "") -> int:
        """Return how many requests came, of all or of one operation such as `pulls/create`."""
        return sum(1 for each in self.seen if operation in {"", each.operation})

    # Answers

    async def _answer(self, request: Request) -> Response:
        body = await request.body()
        with self.lock:
            raw = request.scope["raw_path"].decode("latin-1").partition("?")[0]
            if ".git/" in raw:
                return self._git(request, body)
            if raw.startswith("/storage/"):
                return self._storage(request, raw)
            return self._api(request, raw, body)

    def _api(self, request: Request, raw: str, body: bytes) -> Response:
        method = request.method
        account = self._account_of(request)
        found = published_rules.find(method, raw)
        is_graph = (method, raw) == ("POST", "/graphql")
        name = "graphql" if is_graph else found[0].id if found else "unknown"
        kind = "graphql" if is_graph else "search" if name.startswith("search") else "core"
        content: Any
        if account is None:
            status, content = 401, rest.Fails(401, "Bad credentials").content
        elif self.limited:
            status, content = 403, None
        elif is_graph:
            status, content = self._graph(account, _json(body))
        elif found is None:
            self.violations.append(f"{method} {raw}: GitHub has no such call, or it is not here")
            status, content = 404, rest.Fails(404, "Not Found").content
        else:
            status, content = self._call(found[0], found[1], account, request, _json(body))
        self.seen.append(Seen(name, method, raw, status, account.login if account else None))
        if status == 0:
            return Response(b"{", headers={"Content-Length": "100"})
        if account is not None and self.limited:
            return self._limit_answer(account, kind)
        operation = found[0] if found else None
        return self._response(request, operation, account, kind, status, content)

    def _call(
        self,
        operation: Operation,
        values: dict[str, str],
        account: Account,
        request: Request,
        body: Any,
    ) -> tuple[int, Any]:
        query = dict(request.query_params)
        what = f"{request.method} {request.url.path}"
        wrong = operation.wrong_in_request(values, query, body)
        wrong += ["it asks for no version"] * ("x-github-api-version" not in request.headers)
        wrong += ["it has no user agent"] * ("user-agent" not in request.headers)
        if wrong:
            self.violations += [f"{what}: {each}" for each in wrong]
            return 400, rest.Fails(400, f"Not as published: {'; '.join(wrong)}").content
        fault = self._fault(is_write=request.method != "GET")
        if fault is not None and not fault.after:
            return fault.status, None
        try:
            state = self._state(values, query)
            call = rest.Call(state, Shown(state, self.origin), account, values, query, body)
            status, content = _CALLS[operation.id](call)
        except rest.Fails as error:
            status, content = error.status, error.content
        if operation.is_paged and isinstance(content, list):
            content = _Page(content, query)
        shown = content.items if isinstance(content, _Page) else content
        self.violations += [
            f"answer {status} to {what}: {each}"
            for each in operation.wrong_in_answer(status, shown)
        ]
        if fault is not None:
            return fault.status, None
        if operation.id == "actions/download-job-logs-for-workflow-run" and status == 302:
            content = f"http://localhost:{self.port}/storage/logs/{values['job_id']}"
        return status, content

    def _graph(self, account: Account, body: Any) -> tuple[int, Any]:
        is_write = str(body.get("query", "")).lstrip().startswith("mutation")
        fault = self._fault(is_write=is_write)
        if fault is not None and not fault.after:
            return fault.status, None
        variables = body.get("variables") or {}
        name = f"{variables.get('owner', '')}/{variables.get('name', '')}".lower()
        states = list(self.repositories.values())
        by_node = [x for x in states if any(t.id == variables.get("thread") for t in x.threads)]
        state = self.repositories.get(name) or (by_node or states)[0]
        content, wrong = Graph(state, Shown(state, self.origin), account).answer(body)
        self.violations += [f"POST /graphql: {each}" for each in wrong]
        return (fault.status, None) if fault is not None else (200, content)

    def _fault(self, *, is_write: bool) -> Fault | None:
        if not is_write:
            return Fault(1, False, self.read_faults.pop(0)) if self.read_faults else None
        for each in self.faults:
            each.nth -= 1
        due = [each for each in self.faults if each.nth == 0]
        self.faults = [each for each in self.faults if each.nth > 0]
        return due[0] if due else None

    def _state(self, values: dict[str, str], query: dict[str, str]) -> RepositoryState:
        if "owner" not in values:
            words = [each.removeprefix("repo:") for each in query.get("q", "").split()]
            known = [
                self.repositories[each.lower()]
                for each in words
                if each.lower() in self.repositories
            ]
            return known[0] if known else next(iter(self.repositories.values()))
        state = self.repositories.get(f"{values['owner']}/{values['repo']}".lower())
        if state is None:
            raise rest.Fails(404, "Not Found")
        return state

    def _account_of(self, request: Request) -> Account | None:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "basic":
            token = base64.b64decode(token).decode().partition(":")[2]
        return next((each for each in self.accounts.values() if each.token == token), None)

    # Headers

    def _limits(self, account: Account | None, kind: str) -> dict[str, str]:
        used = self._left[account.login if account else "", kind]
        return {
            "x-ratelimit-limit": str(LIMITS[kind]),
            "x-ratelimit-remaining": str(max(0, LIMITS[kind] - used)),
            "x-ratelimit-used": str(used),
            "x-ratelimit-reset": str(int(time.time()) + RESET_S),
            "x-ratelimit-resource": kind,
        }

    def _limit_answer(self, account: Account, kind: str) -> Response:
        headers = self._limits(account, kind)
        if self.limited == "primary":
            message = f"API rate limit exceeded for user ID {account.id}."
            headers["x-ratelimit-remaining"] = "0"
            headers["x-ratelimit-reset"] = str(int(time.time()) + (self.limited_s or RESET_S))
        else:
            message = _SECONDARY
            if self.limited_s is not None:
                headers["retry-after"] = str(self.limited_s)
        return _as_json(403, rest.Fails(403, message).content, headers)

    def _response(
        self,
        request: Request,
        operation: Operation | None,
        account: Account | None,
        kind: str,
        status: int,
        content: Any,
    ) -> Response:
        headers = self._limits(account, kind)
        if status >= 500 and content is None:
            return Response("<html>Bad gateway</html>", status, headers, "text/html")
        if status == 302:
            return Response(None, 302, {**headers, "Location": content})
        if isinstance(content, _Page):
            link = content.links(f"{self.origin}{request.url.path}")
            headers |= {"Link": link} if link else {}
            content = content.items
        data = b"" if content is None else json.dumps(content).encode()
        if status == 200 and operation is not None and request.method == "GET":
            seen_by = f"{account.login if account else ''}\n".encode()
            etag = f'W/"{hashlib.sha256(seen_by + data).hexdigest()}"'
            headers["ETag"] = etag
            if request.headers.get("if-none-match") == etag:
                return Response(None, 304, headers)
        if account is not None:
            self._left[account.login, kind] += 1
            headers |= {
                name: value
                for name, value in self._limits(account, kind).items()
                if name in {"x-ratelimit-remaining", "x-ratelimit-used"}
            }
        return Response(data, status, headers, "application/json; charset=utf-8")

    # Git and logs

    def _git(self, request: Request, body: bytes) -> Response:
        path = request.url.path
        owner, _, rest_of_path = path.lstrip("/").partition("/")
        state = self.repositories.get(f"{owner}/{rest_of_path.partition('.git/')[0]}".lower())
        account = self._account_of(request)
        if state is None:
            return Response("Repository not found.", 404)
        pushes = "git-receive-pack" in path or "git-receive-pack" in request.url.query
        if pushes and (account is None or account.permission not in {"admin", "write"}):
            status = 401 if account is None else 403
            return Response("", status, {"WWW-Authenticate": 'Basic realm="GitHub"'})
        answer = state.git.answer(
            request.method,
            path,
            request.url.query,
            dict(request.headers),
            body,
            account.login if account else "",
        )
        if pushes and request.method == "POST":
            state.moved()
        self.seen.append(Seen("git", request.method, path, answer.status, None))
        return Response(answer.body, answer.status, dict(answer.headers))

    def _storage(self, request: Request, path: str) -> Response:
        """Return the log of a job, which GitHub keeps elsewhere: no token belongs there."""
        if "authorization" in request.headers:
            self.violations.append("the token was sent to where logs are kept")
        wanted = int(path.rpartition("/")[2])
        rows = (row for each in self.repositories.values() for row in each.checks)
        log = next((row.log for row in rows if row.id == wanted), None)
        return Response(log or "", 200 if log else 404, media_type="text/plain; charset=utf-8")


class _Page:
    """One page of a list."""

    def __init__(self, rows: list[Any], query: dict[str, str]) -> None:
        self._query = query
        self._size, self._page = int(query.get("per_page", 30)), int(query.get("page", 1))
        self._last = max(1, -(-len(rows) // self._size))
        self.items = rows[(self._page - 1) * self._size : self._page * self._size]

    def links(self, url: str) -> str:
        found = {"next": self._page + 1, "last": self._last} if self._page < self._last else {}
        found |= {"first": 1, "prev": self._page - 1} if self._page > 1 else {}
        return ", ".join(
            f'<{url}?{urlencode({**self._query, "page": page})}>; rel="{rel}"'
            for rel, page in found.items()
        )


def _json(body: bytes) -> Any:
    return json.loads(body) if body else None


def _as_json(status: int, content: Any, headers: dict[str, str]) -> Response:
    data = json.dumps(content).encode()
    return Response(data, status, headers, "application/json; charset=utf-8")
