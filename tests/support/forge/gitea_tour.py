"""A walk through all that the client of Gitea reads and writes, recorded and played again.

Recorded on a real server by tests/system/runs/forge/test_gitea_recorded.py; played again without
one by tests/unit/runs/forge/clients/test_gitea_recorded.py.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import httpx2

from bullpen.errors import Conflict, NotFound, Refused
from bullpen.runs.forge.clients.gitea import GiteaClient
from bullpen.team.forge.shown import IssueQuery

RECORDED = Path(__file__).with_name("gitea_recorded.json")
ADDRESS = "http://forge.example"
_KEPT_HEADERS = ("x-total-count", "link", "etag", "content-type")


async def tour(client: GiteaClient, issue: int, pull: int) -> dict[str, Any]:
    """Return everything that the client shows about an issue and a pull request, and does there."""
    seen: dict[str, Any] = {
        "me": asdict(await client.me()),
        "repository": asdict(await client.repository()),
        "issues": [asdict(each) for each in await client.issues(IssueQuery(labels=("bullpen",)))],
        "issue": asdict(await client.issue(issue)),
        "comments": [asdict(each) for each in await client.comments(issue)],
        "written": asdict(await client.comment(issue, "Grüße")),
        "head": await client.branch_head("change"),
        "no head": await client.branch_head("missing"),
        "open pulls": [asdict(each) for each in await client.open_pulls()],
        "reviews": [asdict(each) for each in await client.reviews(pull)],
    }
    await client.set_labels(issue, add=("bullpen: working",), remove=("bullpen",))
    threads = await client.threads(pull)
    seen["threads"] = [asdict(each) for each in threads]
    seen["reply"] = asdict(await client.reply(pull, threads[0], "done"))
    seen["resolved"] = await client.resolve(pull, threads[0])
    seen["threads after"] = [asdict(each) for each in await client.threads(pull)]
    head = (await client.pull(pull)).head
    seen["verdicts"] = [asdict(each) for each in await client.verdicts(head)]
    refused: dict[str, Callable[[], Awaitable[object]]] = {
        "no issue": partial(client.issue, 999),
        "no comments": partial(client.comments, 999),
        "a pull request is no issue": partial(client.issue, pull),
        "a second pull request": partial(
            client.open_pull, title="x", body="", branch="change", base="main"
        ),
        "an issue with an open blocker": partial(client.close_issue, issue),
        "a wrong head": partial(client.merge_pull, pull, head="0" * 40, method="merge"),
    }
    for name, call in refused.items():
        try:
            await call()
        except (NotFound, Conflict, Refused) as error:
            seen[name] = f"{type(error).__name__}: {error.message}"
    seen["merged"] = await client.merge_pull(pull, head=head, method="merge")
    for number in (*seen["issue"]["blocked_by"], issue):
        await client.close_issue(number)
    seen["closed"] = asdict(await client.issue(issue))
    seen["after"] = asdict(await client.pull(pull))
    # As JSON has it: lists for tuples.
    shown: dict[str, Any] = json.loads(json.dumps(seen))
    return shown


class Recorder(httpx2.AsyncBaseTransport):
    """Sends requests to a server and notes what came back."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._there = httpx2.AsyncHTTPTransport()
        self.notes: list[dict[str, Any]] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._there.handle_async_request(request)
        body = await answer.aread()
        text = body.decode().replace(self._url, ADDRESS)
        headers = {
            name: answer.headers[name].replace(self._url, ADDRESS)
            for name in _KEPT_HEADERS
            if name in answer.headers
        }
        note = {"asked": asked(request), "status": answer.status_code, "headers": headers}
        self.notes.append({**note, "body": text})
        return httpx2.Response(answer.status_code, headers=headers, content=body)

    async def aclose(self) -> None:
        await self._there.aclose()


class Player(httpx2.AsyncBaseTransport):
    """Gives the recorded answers, each request's in their order."""

    def __init__(self, notes: list[dict[str, Any]]) -> None:
        self._left = list(notes)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        for number, note in enumerate(self._left):
            if note["asked"] == asked(request):
                del self._left[number]
                return httpx2.Response(
                    note["status"], headers=note["headers"], content=note["body"].encode()
                )
        raise AssertionError(f"no recorded answer to {asked(request)}")

    @property
    def left(self) -> list[str]:
        """What was recorded and not asked for."""
        return [note["asked"] for note in self._left]


def asked(request: httpx2.Request) -> str:
    """Return what a request asks, without who asks."""
    return f"{request.method} {request.url.raw_path.decode()}"
