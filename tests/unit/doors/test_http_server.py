"""Whoever has no token cannot keep a connection; whoever has one keeps it as before."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

import bullpen
from bullpen.doors.http_server import HttpServer, VisitorProtocol, http_config
from support.connections import Acceptor, running

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]

LIMIT_S = 0.2
HOST = b"Host: here\r\n"
TOKEN = b"Authorization: right\r\n"


async def _page(request: Request) -> Response:
    if request.headers.get("authorization") != "right":
        return PlainTextResponse("Who are you?", status_code=401)
    return PlainTextResponse(await request.body() or b"Welcome.")


@asynccontextmanager
async def visitor(keep_alive_s: int = 75) -> AsyncIterator[Line]:
    app = Starlette(routes=[Route("/", _page, methods=["GET", "POST"])])
    server = HttpServer(http_config(app, timeout_keep_alive=keep_alive_s, lifespan="off"))
    async with running(server, "nowhere.example"):
        ours, theirs = socket.socketpair()
        Acceptor(server)(theirs)
        reader, writer = await asyncio.open_connection(sock=ours)
        yield reader, writer
        writer.close()


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VisitorProtocol, "wait_s", LIMIT_S)


async def is_closed(reader: asyncio.StreamReader, within_s: float = 3 * LIMIT_S) -> bool:
    """Whether the other side closes the connection; what it still says is thrown away."""
    with anyio.move_on_after(within_s):
        with suppress(ConnectionError):
            while await reader.read(65536):
                pass
        return True
    return False


async def answer(reader: asyncio.StreamReader) -> bytes:
    with anyio.fail_after(5):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
    return head.split(b"\r\n")[0]


@pytest.mark.parametrize("first", [b"", b"G", b"GET / HTTP/1.1\r\n" + HOST + TOKEN])
async def test_a_visitor_that_does_not_finish_its_request_is_hung_up_on(first: bytes) -> None:
    async with visitor() as (reader, writer):
        writer.write(first)
        assert await is_closed(reader)


async def test_bytes_that_drip_do_not_lengthen_the_time() -> None:
    async with visitor() as (reader, writer):
        for _ in range(20):
            writer.write(b"G")
            if await is_closed(reader, LIMIT_S / 4):
                return
    pytest.fail("It was still open after five times the limit.")


async def test_who_was_refused_is_hung_up_on_soon_although_clients_are_kept() -> None:
    async with visitor() as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        assert await answer(reader) == b"HTTP/1.1 401 Unauthorized"
        assert await is_closed(reader)


async def test_who_was_refused_cannot_stay_by_sending_a_body_in_drips() -> None:
    async with visitor() as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1000\r\n\r\n")
        assert await answer(reader) == b"HTTP/1.1 401 Unauthorized"
        for _ in range(20):
            writer.write(b"x")
            if await is_closed(reader, LIMIT_S / 4):
                return
    pytest.fail("It was still open after five times the limit.")


async def test_a_client_with_a_token_keeps_its_idle_connection_and_may_send_slowly() -> None:
    async with visitor() as (reader, writer):
        for _ in range(2):
            writer.write(b"GET / HTTP/1.1\r\n" + HOST + TOKEN + b"\r\n")
            assert await answer(reader) == b"HTTP/1.1 200 OK"
            assert not await is_closed(reader, 2 * LIMIT_S)
        writer.write(b"POST / HTTP/1.1\r\n" + HOST + TOKEN + b"Content-Length: 2\r\n\r\nx")
        assert not await is_closed(reader, 2 * LIMIT_S)
        writer.write(b"y")
        assert await answer(reader) == b"HTTP/1.1 200 OK"


async def test_an_idle_connection_ends_when_the_server_says() -> None:
    async with visitor(keep_alive_s=0) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\n" + HOST + TOKEN + b"\r\n")
        assert await answer(reader) == b"HTTP/1.1 200 OK"
        assert await is_closed(reader)


def test_the_limit_is_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert VisitorProtocol.wait_s == 10


def test_no_door_starts_a_server_without_the_limit() -> None:
    source = Path(bullpen.__file__).parent
    users = {
        path
        for folder in source.iterdir()
        if folder.name != "testing"
        for path in folder.rglob("*.py")
        if "import uvicorn" in path.read_text("utf-8")
    }
    assert users == {source / "doors" / "http_server.py"}
