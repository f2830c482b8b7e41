"""Talk to an MCP server that is a process of this agent: in its sandbox, and ended with it.

The SDK's own transport knows neither, and reads a line of any length into memory.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage

from bullpen.agents.contracts.backend import NONCE
from bullpen.agents.system.environment import COMMON
from bullpen.agents.system.run_command import Command, Workplace, started
from bullpen.agents.system.vendors.programs import found_at
from bullpen.errors import Unavailable

LINE_BYTES_MAX = 8 * 1024 * 1024
"""The longest message of a server."""

_BACKLOG_MAX = 4_096
_TROUBLE_CHARS = 1_000
_GRACE_S = 2.0
_KILL_AFTER_S = 0.2
_KEPT_FROM_SERVERS = ("SSH_AUTH_SOCK",)


def server_environment(env: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The environment of a server: what every program needs, and what its definition sets."""
    names = (name for name in (*COMMON, NONCE) if name not in _KEPT_FROM_SERVERS)
    return {**{name: env[name] for name in names if name in env}, **own}


class LastWords:
    """What a server said last, for the reason why it failed."""

    def __init__(self) -> None:
        self._kept = b""
        self._status = 0

    def add(self, chunk: bytes) -> None:
        """Keep the end of it."""
        self._kept = (self._kept + chunk)[-4 * _TROUBLE_CHARS :]

    def answered(self, status: int) -> None:
        """Note the status of an HTTP answer."""
        self._status = status

    def text(self, name: str) -> str:
        """The last characters of standard error, or what a refusal over HTTP means."""
        if self._status in (401, 403):
            return f"it wants a login (HTTP {self._status}): bullpen mcp login {name}"
        printed = self._kept.decode("utf-8", "replace").strip()[-_TROUBLE_CHARS:]
        return printed and f"it printed: {printed}"


@asynccontextmanager
async def stdio_transport(
    command: Sequence[str], place: Workplace, env: Mapping[str, str], words: LastWords
) -> AsyncIterator[TransportStreams]:
    """Start a server and yield the streams to it. Raises Unavailable."""
    path = found_at(tuple(command), env.get("PATH", ""), place.spec.cwd)
    if path is None:
        raise Unavailable(
            f"There is no program {command[0]!r} on the agent's PATH.", remedy="Install it."
        )
    to_us, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](_BACKLOG_MAX)
    write_stream, from_us = anyio.create_memory_object_stream[SessionMessage](0)
    lines = _Lines(to_us)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    stdin = _End(writing)
    try:
        async with started(
            [path, *command[1:]], place, lines.add, words.add, stdin=reading, env=env
        ) as process:
            os.close(reading)
            reading = -1
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_read, process, to_us, lines)
                tasks.start_soon(_write, from_us, stdin, to_us)
                try:
                    yield read_stream, write_stream
                finally:
                    with anyio.CancelScope(shield=True):
                        await _end(process, stdin)
                    tasks.cancel_scope.cancel()
    finally:
        if reading >= 0:
            os.close(reading)
        stdin.close()
        for stream in (to_us, read_stream, write_stream, from_us):
            stream.close()


class _End:
    """The writing end of a pipe, closed once."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


class _Lines:
    """Takes bytes and passes on the message of each line. A flood ends the connection."""

    def __init__(self, to_us: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        self._to_us = to_us
        self._rest = b""
        self.flooded = anyio.Event()

    def add(self, chunk: bytes) -> None:
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                self._pass_on(line)
        if len(self._rest) > LINE_BYTES_MAX:
            self._rest = b""
            self.flooded.set()

    def _pass_on(self, line: bytes) -> None:
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            # Some servers print other things; they are not for us.
            return
        try:
            self._to_us.send_nowait(SessionMessage(message))
        except anyio.WouldBlock:
            self.flooded.set()
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return


async def _read(
    process: Command,
    to_us: MemoryObjectSendStream[SessionMessage | Exception],
    lines: _Lines,
) -> None:
    """Read until the server ends or floods us; then the session sees the end."""

    async def watch_flood() -> None:
        await lines.flooded.wait()
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch_flood)
        await process.finished()
        tasks.cancel_scope.cancel()
    to_us.close()


async def _write(
    from_us: MemoryObjectReceiveStream[SessionMessage],
    stdin: _End,
    to_us: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    try:
        async for each in from_us:
            text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            rest = memoryview(text.encode("utf-8", "replace") + b"\n")
            while rest:
                await anyio.wait_writable(stdin.fd)
                with suppress(BlockingIOError):
                    rest = rest[os.write(stdin.fd, rest) :]
    except OSError:
        # It does not read any more: the session sees the end.
        to_us.close()


async def _end(process: Command, stdin: _End) -> None:
    """Ask a server to end by closing its input, then end its process group."""
    stdin.close()
    with anyio.move_on_after(_GRACE_S):
        await process.process.wait()
    await process.end(_KILL_AFTER_S)
