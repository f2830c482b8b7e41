"""Stored tokens of MCP servers: private, renewed by one process for all, and never lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.shared.auth import OAuthToken

from bullpen.agents.tools.mcp_servers import oauth
from bullpen.agents.tools.mcp_servers.oauth import TokenFile, stored_auth
from bullpen.errors import Unavailable

URL = "https://hub.example.org/mcp"
Flow = AsyncGenerator[httpx2.Request, httpx2.Response]


def tokens(access: str, **more: Any) -> OAuthToken:
    return OAuthToken(access_token=access, refresh_token=f"renews {access}", **more)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    file = TokenFile(tmp_path, URL)
    file.keep("client", {"client_id": "c", "redirect_uris": ["http://127.0.0.1/callback"]})
    file.keep("expires_at", time.time() - 60)
    file.keep("tokens", tokens("old", expires_in=1).model_dump(mode="json"))
    return tmp_path


def flow_of(home: Path) -> Flow:
    """The requests of another process with these tokens."""
    auth = stored_auth(URL, TokenFile(home, URL))
    assert auth is not None
    return auth.async_auth_flow(httpx2.Request("POST", URL))


def answer(request: httpx2.Request, access: str) -> httpx2.Response:
    made = tokens(access, expires_in=3_600).model_dump(mode="json")
    return httpx2.Response(200, json=made, request=request)


async def test_of_several_processes_one_renews_the_tokens(home: Path) -> None:
    first = flow_of(home)
    renewal = await anext(first)
    assert b"renews+old" in renewal.content

    async def other() -> httpx2.Request:
        flow = flow_of(home)
        request = await anext(flow)
        await flow.aclose()
        return request

    waiting = asyncio.ensure_future(other())
    await anyio.sleep(0.2)
    assert not waiting.done()
    for request in (await first.asend(answer(renewal, "new")), await waiting):
        assert str(request.url) == URL and request.headers["Authorization"] == "Bearer new"
    await first.aclose()


async def test_tokens_that_another_process_renewed_are_used(home: Path) -> None:
    auth = stored_auth(URL, TokenFile(home, URL))
    assert auth is not None
    await TokenFile(home, URL).set_tokens(tokens("other", expires_in=3_600))
    flow = auth.async_auth_flow(httpx2.Request("POST", URL))
    assert (await anext(flow)).headers["Authorization"] == "Bearer other"
    await flow.aclose()


async def test_a_process_that_is_stuck_holds_up_nobody_for_long(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth, "_RENEWAL_S", 0.1)
    async with TokenFile(home, URL).renewing():
        flow = flow_of(home)
        with anyio.fail_after(30):
            assert b"renews+old" in (await anext(flow)).content
        await flow.aclose()


async def test_tokens_are_private_and_nothing_else_is_left(home: Path) -> None:
    file = TokenFile(home, URL)
    async with file.renewing():
        await file.set_tokens(tokens("new"))
    assert "expires_at" not in TokenFile(home, URL).kept
    found = {each.suffix: each.stat().st_mode & 0o777 for each in file.path.parent.iterdir()}
    assert found == {".json": 0o600, ".lock": 0o600}
    assert file.path.parent.stat().st_mode & 0o777 == 0o700


def test_tokens_that_cannot_be_read_are_not_taken_for_none(home: Path) -> None:
    path = TokenFile(home, URL).path
    path.write_text("{")
    with pytest.raises(Unavailable, match="Cannot read the tokens"):
        stored_auth(URL, TokenFile(home, URL))
    TokenFile(home, URL).forget()
    assert stored_auth(URL, TokenFile(home, URL)) is None


@pytest.mark.parametrize(
    "line", ["GET http://[/callback HTTP/1.1", "GET /other?code=1 HTTP/1.1", "", "x" * 20_000]
)
async def test_odd_requests_to_the_port_of_a_login_are_no_answer(line: str) -> None:
    reader = asyncio.StreamReader(limit=16_384)
    reader.feed_data(f"{line}\r\n".encode())
    reader.feed_eof()
    assert await oauth._callback(reader) is None
