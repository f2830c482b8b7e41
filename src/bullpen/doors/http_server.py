"""The HTTP server of the dashboard and of MCP: a visitor without a token cannot stay connected."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_GRACE_S = 1
_REFUSED = "bullpen.refused"
_REFUSALS = frozenset({400, 401, 403, 421})


class HttpServer(uvicorn.Server):
    """A server that leaves signals to us: uvicorn would raise them again after it ended."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def http_config(app: ASGIApp, **options: Any) -> uvicorn.Config:
    """The configuration of a server that limits how long strangers stay."""
    return uvicorn.Config(
        _marking_refusals(app),
        http=VisitorProtocol,
        ws="none",
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=_GRACE_S,
        **options,
    )


class VisitorProtocol(H11Protocol):
    """Closes a connection that does not finish the head of a request in time.

    The same holds after a request was refused. A visitor who was let in is not limited here: an
    idle connection is kept as long as `timeout_keep_alive` says, and a body may be slow.
    """

    wait_s: ClassVar[float] = 10.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit for the first request."""
        self._overdue: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self._limit()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the time limit."""
        self._unlimit()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Start the time limit with the first bytes of a request, end it with its head."""
        super().data_received(data)
        # uvicorn's type leaves out that there is none before the first request.
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            self._limit()
        else:
            self._unlimit()

    def on_response_complete(self) -> None:
        """Keep the connection for the next request; only briefly if this one was refused."""
        kept_s: float = self.config.timeout_keep_alive
        if self.scope.get(_REFUSED, False):
            kept_s = min(kept_s, self.wait_s)
        self.timeout_keep_alive = kept_s  # type: ignore[assignment]
        super().on_response_complete()

    def _limit(self) -> None:
        if self._overdue is None:
            self._overdue = self.loop.call_later(self.wait_s, self.transport.close)

    def _unlimit(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None


def _marking_refusals(app: ASGIApp) -> ASGIApp:
    """The same application, which notes in the scope of a request that it was refused."""

    async def marked(scope: Scope, receive: Receive, send: Send) -> None:
        async def noticed(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] in _REFUSALS:
                scope[_REFUSED] = True
            await send(message)

        await app(scope, receive, noticed)

    return marked
