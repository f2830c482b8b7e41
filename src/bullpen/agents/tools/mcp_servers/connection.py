"""The connection to one MCP server, held open by a task of its own and opened again if it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import anyio
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.session import IncomingMessage
from pydantic import BaseModel, ValidationError

from bullpen.errors import BullpenError, Unavailable

RESTARTS_MAX = 3
"""How often a server that ended is started again for one agent."""

_PAGES_MAX = 50
_ENDED_WITHIN_S = 8.0
_WORDS_MAX = 300

R = TypeVar("R", bound=BaseModel)

OpenClient = Callable[["ServerConnection"], AbstractAsyncContextManager[Client]]
"""Opens a client for a connection, which wants its messages."""


class ServerConnection:
    """One server of one agent. Its client lives in a task of its own, as the SDK requires."""

    def __init__(
        self,
        name: str,
        open_client: OpenClient,
        *,
        last_words: Callable[[], str] = lambda: "",
        start_s: float,
        call_s: float,
    ) -> None:
        """`last_words` returns what explains a failure: what the server said last."""
        self.name = name
        self.restarts = 0
        # The server said that its list of tools changed.
        self.list_changed = False
        self._open_client = open_client
        self._last_words = last_words
        self._start_s = start_s
        self._call_s = call_s
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._why = ""
        self._starting = anyio.Lock()

    @property
    def is_open(self) -> bool:
        """Whether the server is connected, as far as we know."""
        return self._client is not None

    @property
    def capabilities(self) -> types.ServerCapabilities:
        """What the server says it can do."""
        return (
            types.ServerCapabilities() if self._client is None else self._client.server_capabilities
        )

    async def start(self) -> None:
        """Connect. Raises Unavailable with the reason if it does not work in time."""
        ready = asyncio.Event()
        self._stop, self._why = asyncio.Event(), ""
        self._task = asyncio.create_task(self._hold(ready), name=f"mcp {self.name}")
        with anyio.move_on_after(self._start_s):
            await ready.wait()
        if self._client is None:
            late = "" if ready.is_set() else f"it did not answer within {self._start_s:g} seconds"
            await self.aclose()
            raise self._unavailable("did not start", late or self._why)

    async def ensure(self) -> bool:
        """Connect again if the connection ended; returns whether it did. Raises Unavailable."""
        async with self._starting:
            if self.is_open:
                return False
            if self.restarts >= RESTARTS_MAX:
                raise self._unavailable("ended", f"it was started {RESTARTS_MAX} times again")
            self.restarts += 1
            await self.start()
            return True

    async def tools(self) -> list[types.Tool]:
        """All tools that the server lists, as far as the number of pages is sane."""
        found: list[types.Tool] = []
        seen: set[str] = set()
        cursor: str | None = None
        with anyio.move_on_after(self._start_s) as waited:
            while len(seen) < _PAGES_MAX:
                params = types.PaginatedRequestParams(cursor=cursor)
                page = await self.ask(types.ListToolsRequest(params=params), types.ListToolsResult)
                found += page.tools
                cursor = page.next_cursor
                if not cursor or cursor in seen:
                    break
                seen.add(cursor)
        if waited.cancelled_caught:
            raise self._unavailable("did not list its tools", "it took too long")
        self.list_changed = False
        return found

    async def ask(self, request: types.ClientRequest, result: type[R]) -> R:
        """Send a request. Raises Unavailable if the server fails, ends or takes too long.

        A result is not checked with the server's own output schema: that would run its patterns.
        """
        client = self._client
        if client is None:
            raise self._unavailable("ended", self._why)
        try:
            with anyio.fail_after(self._call_s):
                return await client.session.send_request(
                    request, result, request_read_timeout_seconds=self._call_s
                )
        except TimeoutError:
            raise self._slow() from None
        except MCPError as error:
            if error.code == types.REQUEST_TIMEOUT:
                raise self._slow() from None
            if error.code == types.CONNECTION_CLOSED:
                raise await self._lost() from None
            raise self._unavailable("refused the request", str(error)) from None
        except ValidationError:
            raise self._unavailable("gave an answer that is no valid MCP", "") from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise await self._lost() from None

    async def aclose(self) -> None:
        """End the connection, and the server if it is our process."""
        self._stop.set()
        opened = self.is_open
        task, self._task, self._client = self._task, None, None
        if task is None:
            return
        with anyio.CancelScope(shield=True):
            # One that is not open yet does not wait for the sign to stop.
            if opened:
                await asyncio.wait({task}, timeout=_ENDED_WITHIN_S)
            task.cancel()
            await asyncio.wait({task}, timeout=_ENDED_WITHIN_S)

    async def _hold(self, ready: asyncio.Event) -> None:
        """Open the client, and keep it open until it is not needed any more."""
        try:
            async with self._open_client(self) as client:
                self._client = client
                ready.set()
                await self._stop.wait()
        except BullpenError as error:
            self._why = str(error)
        except Exception as error:
            # The SDK raises what its libraries raise, in groups.
            self._why = first_words(error)
        finally:
            self._client = None
            ready.set()

    async def heard(self, message: IncomingMessage) -> None:
        """Take a message that the server sends by itself."""
        if isinstance(message, types.ToolListChangedNotification):
            self.list_changed = True

    async def _lost(self) -> Unavailable:
        await self.aclose()
        return self._unavailable(
            "ended during the call", "it may have been carried out; check before you repeat it"
        )

    def _slow(self) -> Unavailable:
        return self._unavailable(
            f"did not answer within {self._call_s:g} seconds",
            "the call may still be carried out",
        )

    def _unavailable(self, what: str, why: str) -> Unavailable:
        said = self._last_words()
        parts = [part.rstrip(".")[:_WORDS_MAX] for part in (why, said)]
        words = "; ".join(part for part in parts if part)
        return Unavailable(
            f"The MCP server {self.name!r} {what}{f': {words}' if words else ''}.",
            remedy="Go on without it, or report it.",
        )


def first_words(error: BaseException) -> str:
    """What failed first, on one short line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"[:_WORDS_MAX]
