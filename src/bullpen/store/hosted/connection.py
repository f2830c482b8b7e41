"""A local agent's connection to the host process, with many calls at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

from bullpen.errors import Invalid, Unavailable
from bullpen.store.hosted import frames

_READ_AHEAD = 1024 * 1024


class Broken(Exception):
    """The connection broke before the answer came."""


class _Watching:
    """The last number that a watch got. A slow reader only gets the newest."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.seq: int | None = None
        self.error: Exception | None = None

    def tell(self, seq: int) -> None:
        self.seq = seq
        self.news.set()

    def fail(self, error: Exception) -> None:
        self.error = error
        self.news.set()

    async def next(self) -> int:
        while True:
            self.news.clear()
            if self.seq is not None:
                seq, self.seq = self.seq, None
                return seq
            if self.error is not None:
                raise self.error
            await self.news.wait()


class HostConnection:
    """A connection after its greeting. Useless once it is broken."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._watches: dict[int, _Watching] = {}
        self._last = 0
        self._frames_max = 1
        self.is_operator = False
        self._reading: asyncio.Task[None] | None = None
        self.broken = False

    @classmethod
    async def open(cls, path: str, token: str) -> HostConnection:
        """Connect and say hello.

        Raises OSError if nobody listens there, Broken if the other side closed the connection, and
        Refused if the host does not know the token (unknown_token) or the version (old_protocol).
        """
        reader, writer = await asyncio.open_unix_connection(path, limit=_READ_AHEAD)
        line = cls(reader, writer)
        try:
            writer.write(frames.pack({"v": frames.VERSION, "token": token}))
            greeting = await frames.receive(reader)
            if "error" in greeting:
                raise frames.error_of(greeting["error"])
            line.is_operator = greeting["ok"]["operator"] is True
            line._frames_max = frames.frames_of(operator=line.is_operator)
        except (EOFError, ValueError, KeyError, TypeError) as error:
            await line.aclose()
            raise Broken from error
        except BaseException:
            await line.aclose()
            raise
        line._reading = asyncio.create_task(line._read())
        return line

    async def call(self, op: str, args: dict[str, Any]) -> Any:
        """Ask something. Raises Broken, or the host's own BullpenError."""
        number, frame = self._numbered(op, args)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            await self._send(frame)
            return await answer
        except asyncio.CancelledError:
            self._say({"op": "cancel", "id": number})
            raise
        finally:
            del self._answers[number]
            if answer.done() and not answer.cancelled():
                # It may have come after this side gave up; then nobody reads it.
                answer.exception()

    async def watch(self, args: dict[str, Any]) -> AsyncGenerator[int, None]:
        """Yield numbers until the watch is closed, or ends with an error as `call` does."""
        number, frame = self._numbered("watch", args)
        watching = self._watches[number] = _Watching()
        try:
            await self._send(frame)
            while True:
                yield await watching.next()
        finally:
            del self._watches[number]
            self._say({"op": "cancel", "id": number})

    def hand_back(self, turn: str) -> None:
        """Give a turn back without a decision."""
        self._say({"op": "pass", "turn": turn})

    async def aclose(self) -> None:
        """Close the connection."""
        self._break()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    def _numbered(self, op: str, args: dict[str, Any]) -> tuple[int, bytes]:
        if self.broken:
            raise Broken
        self._last += 1
        try:
            frame = {**args, "op": op, "id": self._last}
            return self._last, frames.pack(frame, frames_max=self._frames_max)
        except frames.TooLong as error:
            raise Invalid(
                f"The content is too large for one call: {error}. The host accepts "
                f"{self._frames_max * frames.FRAME_BYTES_MAX}.",
                remedy="Put the content in a file and send its path.",
            ) from None

    async def _send(self, frame: bytes) -> None:
        try:
            self._writer.write(frame)
            await self._writer.drain()
        except OSError as error:
            self._break()
            raise Broken from error

    def _say(self, notice: dict[str, Any]) -> None:
        """Send something that needs no answer, if the connection is still open."""
        if not self.broken:
            with suppress(OSError):
                self._writer.write(frames.pack(notice))

    async def _read(self) -> None:
        try:
            while True:
                self._take(await frames.receive(self._reader, frames_max=frames.FRAMES_MAX))
        except (OSError, EOFError, ValueError, KeyError):
            pass
        finally:
            self._break()

    def _take(self, frame: dict[str, Any]) -> None:
        number = frame["id"]
        error = frames.error_of(frame["error"]) if "error" in frame else None
        watching, answer = self._watches.get(number), self._answers.get(number)
        if watching is not None:
            if error is not None:
                watching.fail(error)
            else:
                watching.tell(frame["item"])
        elif answer is not None and not answer.done():
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(frame["ok"])

    def _break(self) -> None:
        self.broken = True
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(Broken())
        for watching in self._watches.values():
            watching.fail(Broken())


def no_answer(path: str) -> Unavailable:
    """Return the error for a host that cannot be reached."""
    return Unavailable(
        f"The host process of this machine does not answer at {path}.",
        remedy="Start it: bullpen host start",
    )
