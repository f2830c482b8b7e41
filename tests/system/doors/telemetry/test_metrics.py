"""Metrics of the known run, computed by hand, and the text that Prometheus reads, read back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from bullpen.doors.telemetry.prometheus import serve


async def asked(port: int, request: bytes) -> str:
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(request)
        answer = b""
        while True:
            try:
                answer += await stream.receive()
            except anyio.EndOfStream:
                return answer.decode()


@pytest.mark.parametrize(
    ("request_text", "status", "body"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: localhost:9\r\n\r\n", "200 OK", "up 1"),
        (b"GET /metrics?x=1 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", "200 OK", "up 1"),
        (b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403 Forbidden", "loopback"),
        (b"GET /metrics HTTP/1.1\r\nX: y\r\n\r\n", "403 Forbidden", "loopback"),
        (b"POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "405 ", "Only GET"),
        (b"GET /secret HTTP/1.1\r\nHost: localhost\r\n\r\n", "404 ", "/metrics"),
        (b"\r\n\r\n", "403 ", "loopback"),
    ],
)
async def test_metrics_are_served_on_loopback_to_whoever_asks_for_them_there(
    request_text: bytes, status: str, body: str
) -> None:
    async with serving(answers) as port:
        with anyio.fail_after(20):
            answer = await asked(port, request_text)
    assert answer.startswith(f"HTTP/1.1 {status}")
    assert body in answer.split("\r\n\r\n", 1)[1]


async def answers() -> str:
    return "up 1\n"


class serving:
    """The server, until the end of the block; it gives its port."""

    def __init__(self, text: Callable[[], Awaitable[str]]) -> None:
        self._text = text
        self._group = anyio.create_task_group()

    async def __aenter__(self) -> int:
        urls: list[str] = []
        ready = anyio.Event()

        def listens(url: str) -> None:
            urls.append(url)
            ready.set()

        await self._group.__aenter__()

        async def run() -> None:
            await serve(0, self._text, ready=listens)

        self._group.start_soon(run)
        with anyio.fail_after(20):
            await ready.wait()
        return int(urls[0].rsplit(":", 1)[1].split("/")[0])

    async def __aexit__(self, *error: object) -> None:
        self._group.cancel_scope.cancel()
        await self._group.__aexit__(None, None, None)
