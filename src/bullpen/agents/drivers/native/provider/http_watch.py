"""The HTTP connection to a model's API, watched: what was sent, and silence in an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2

_CONNECT_S = 10.0
_TRANSPORT_S = 600.0
# Far more than any answer: each piece of text comes with some hundred bytes of its own.
_BYTES_MAX = 64_000_000


class WatchedConnection:
    """An HTTP client for one model, which makes one request at a time."""

    def __init__(self, *, silence_s: float) -> None:
        # How long an answer may be silent once it has begun.
        self.silence_s = silence_s
        # The size of the request under way; 0 if nothing was sent yet.
        self.sent_bytes = 0
        # Whether the API answered it, with an error or with the beginning of an answer.
        self.status = 0
        # Hooks, not a transport: a client with its own transport ignores the proxies of the system.
        self.client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(_TRANSPORT_S, connect=_CONNECT_S),
            event_hooks={"request": [self._sends], "response": [self._answered]},
        )

    def begin(self) -> None:
        """Forget the request before."""
        self.sent_bytes, self.status = 0, 0

    def watch_botocore(self, client: Any) -> None:
        """Watch the requests of a client of Amazon's library, which has its own connections."""
        client.meta.events.register_last("before-send.bedrock-runtime", self._botocore_sends)
        client.meta.events.register("response-received.bedrock-runtime", self._botocore_answered)

    def _botocore_sends(self, request: Any, **_: Any) -> None:
        body = request.body
        self.sent_bytes = len(body) if isinstance(body, bytes | bytearray | str) else 1

    def _botocore_answered(self, response_dict: dict[str, Any] | None, **_: Any) -> None:
        if response_dict is not None:
            self.status = int(response_dict["status_code"])

    async def _sends(self, request: httpx2.Request) -> None:
        self.sent_bytes = len(await request.aread())

    async def _answered(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream, self.silence_s)


class _Bounded(httpx2.AsyncByteStream):
    """The bytes of an answer. Raises if they are too many, or if none come for too long."""

    def __init__(self, stream: httpx2.AsyncByteStream, silence_s: float) -> None:
        self._stream = stream
        self._silence_s = silence_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        source, limit_s, size = aiter(self._stream), None, 0
        while True:
            with anyio.move_on_after(limit_s) as scope:
                try:
                    piece = await anext(source)
                except StopAsyncIteration:
                    return
            if scope.cancelled_caught:
                raise httpx2.ReadTimeout(f"nothing arrived for {self._silence_s:g} s")
            limit_s, size = self._silence_s, size + len(piece)
            if size > _BYTES_MAX:
                raise httpx2.ReadError(f"the answer has more than {_BYTES_MAX // 1_000_000} MB")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()
