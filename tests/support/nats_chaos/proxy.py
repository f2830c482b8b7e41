"""A proxy between a store and a server that loses, holds back and invents what it is told to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """One message of the client protocol: its first line, and what follows it."""

    head: bytes
    body: bytes = b""

    @property
    def verb(self) -> str:
        return self.head.split(b" ", 1)[0].strip().decode().upper()

    @property
    def words(self) -> list[str]:
        return self.head.decode().split()

    @property
    def subject(self) -> str:
        return self.words[1]

    @property
    def is_news(self) -> bool:
        """Whether it is a message that the server repeats for whoever listens."""
        return self.verb == "HMSG" and self.subject.startswith("w.")

    @property
    def is_row(self) -> bool:
        """Whether it is a stored message, in answer to a direct get."""
        return self.verb == "HMSG" and b"Nats-Sequence" in self.body and not self.is_news

    @property
    def is_stored(self) -> bool:
        """Whether it says that a message was stored in a stream of teams or of the directory."""
        return self.verb == "MSG" and b'"stream":' in self.body and b'"seq":' in self.body

    @property
    def is_append(self) -> bool:
        """Whether it asks to store something with compare-and-set."""
        return self.verb == "HPUB" and b"Nats-Expected-Last-Subject-Sequence" in self.body

    @property
    def is_rollup(self) -> bool:
        return self.is_append and b"Nats-Rollup" in self.body


Filter = Callable[[Frame, "Session"], Awaitable[Frame | None]]
"""What becomes of a frame: itself, another, or None. It may wait, and it may close the session."""


async def pass_on(frame: Frame, session: Session) -> Frame | None:
    return frame


class Session:
    """One connection of a client through the proxy."""

    def __init__(
        self,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._from_client, self._to_client = client
        self._from_server, self._to_server = server
        self._ids: dict[str, str] = {}

    async def run(self, proxy: Proxy) -> None:
        pumps = [
            asyncio.create_task(self._asks(proxy)),
            asyncio.create_task(self._answers(proxy)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self.close()

    def close(self) -> None:
        for writer in (self._to_client, self._to_server):
            with suppress(OSError, RuntimeError):
                writer.close()

    def tell_client(self, data: bytes) -> None:
        """Say something to the client that the server did not say."""
        self._to_client.write(data)

    def answer(self, ask: Frame, body: object) -> None:
        """Answer a request in the place of the server."""
        reply = ask.words[2]
        wanted = reply.rsplit(".", 1)[0] + ".*"
        data = json.dumps(body).encode()
        head = f"MSG {reply} {self._ids[wanted]} {len(data)}\r\n".encode()
        self.tell_client(head + data + b"\r\n")

    async def _asks(self, proxy: Proxy) -> None:
        async for frame in _frames(self._from_client):
            if frame.verb == "SUB":
                self._ids[frame.subject] = frame.words[-1]
            await self._hand_on(frame, await proxy.asks(frame, self), self._to_server)

    async def _answers(self, proxy: Proxy) -> None:
        async for frame in _frames(self._from_server):
            await self._hand_on(frame, await proxy.answers(frame, self), self._to_client)

    @staticmethod
    async def _hand_on(frame: Frame, instead: Frame | None, to: asyncio.StreamWriter) -> None:
        if instead is not None:
            to.write(instead.head + instead.body)
            await to.drain()


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[Frame]:
    while head := await reader.readline():
        words = head.split()
        verb = words[0].upper() if words else b""
        has_body = verb in (b"MSG", b"HMSG", b"PUB", b"HPUB")
        yield Frame(head, await reader.readexactly(int(words[-1]) + 2) if has_body else b"")


class Proxy:
    """Listens on loopback; `asks` and `answers` decide about all that goes through."""

    def __init__(self, port: int) -> None:
        self.asks: Filter = pass_on
        self.answers: Filter = pass_on
        self.sessions: set[Session] = set()
        self._target = port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"nats://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def heal(self) -> None:
        self.asks = self.answers = pass_on

    async def start(self) -> None:
        # The greeting of a server may be long.
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20)

    async def aclose(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            server = await asyncio.open_connection("127.0.0.1", self._target, limit=1 << 20)
            session = Session((reader, writer), server)
            self.sessions.add(session)
            try:
                await session.run(self)
            finally:
                self.sessions.discard(session)
        except (OSError, asyncio.CancelledError):
            writer.close()
        finally:
            self._tasks.discard(task)


@asynccontextmanager
async def proxy_to(port: int) -> AsyncIterator[Proxy]:
    proxy = Proxy(port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.aclose()
