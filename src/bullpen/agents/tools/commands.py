"""Running one shell command: a process group of its own, bounded output, a certain end."""

from __future__ import annotations

import codecs
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol, Self

import anyio
from anyio import to_thread
from anyio.abc import Process

from bullpen.agents import sandbox
from bullpen.agents.environment import for_commands
from bullpen.agents.processes import group_members
from bullpen.agents.secrets import Redactor
from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentSpec

HEAD_CHARS = 10_000
TAIL_CHARS = 20_000
"""How much of a long output is shown: its beginning and its end."""

FILE_BYTES_MAX = 256 * 1024 * 1024
"""How much of an output is kept in a file."""

_CHUNK = 65_536
_DRAIN_BYTES_MAX = 1024 * 1024
_POLL_S = 0.02
_GRACE_WHEN_CANCELLED_S = 0.5
_KILLED_WITHIN_S = 2.0


class Workplace(Protocol):
    """Where commands run, closed in or not, and with which environment: every desk is one."""

    @property
    def spec(self) -> AgentSpec:
        """Whose directory and policy hold."""

    @property
    def env(self) -> Mapping[str, str]:
        """The environment for what is started."""


class Output:
    """What a command printed: beginning and end in memory, all of it in a file if it is long.

    With `whole` the file is there from the beginning. No secret of the workplace is in either.
    """

    def __init__(self, path: Path, place: Workplace, *, whole: bool = False) -> None:
        self.path = path
        self._chars = 0
        self._bytes = 0
        # What is no text goes into the file as it is.
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._pieces = Redactor(place.env, place.spec.env_asked).stream()
        self._head = ""
        self._tail = ""
        self._early: list[bytes] = []
        self._file: BinaryIO | None = None
        self._problem: str | None = None
        if whole:
            self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._finish()
        if self._file is not None:
            self._file.close()

    def add(self, chunk: bytes) -> None:
        """Take the next bytes. A file that cannot be written is told of in the text."""
        self._take(self._pieces.feed(self._decoder.decode(chunk)))

    def _finish(self) -> None:
        """Take what was held back; twice does no harm."""
        self._take(self._pieces.feed(self._decoder.decode(b"", final=True)) + self._pieces.rest())

    def _take(self, text: str) -> None:
        if not text:
            return
        chunk = text.encode("utf-8", "surrogateescape")
        room = FILE_BYTES_MAX - self._bytes
        self._bytes += len(chunk)
        self._show(text if text.isascii() else chunk.decode("utf-8", "replace"))
        if self._problem is not None:
            return
        self._early.append(chunk[: max(0, room)])
        try:
            if self._file is None and self._chars > HEAD_CHARS + TAIL_CHARS:
                self._open()
            if self._file is not None:
                self._file.write(b"".join(self._early))
                self._early.clear()
        except OSError as error:
            self._problem = f"it could not be kept in {self.path}: {error.strerror}"
            self._early.clear()

    def _show(self, text: str) -> None:
        self._chars += len(text)
        missing = HEAD_CHARS - len(self._head)
        if missing > 0:
            self._head += text[:missing]
            text = text[missing:]
        self._tail += text
        if len(self._tail) > 2 * TAIL_CHARS:
            self._tail = self._tail[-TAIL_CHARS:]

    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Unbuffered: others read the file while it grows.
        self._file = open(self.path, "xb", buffering=0)  # noqa: SIM115 - closed on exit

    def text(self) -> str:
        """What is shown of it, and where the rest is."""
        self._finish()
        tail = self._tail[-TAIL_CHARS:]
        left_out = self._chars - len(self._head) - len(tail)
        if not left_out:
            return self._head + tail
        return (
            f"{self._head}\n\n[... {left_out} characters are left out here; {self._kept()} ...]"
            f"\n\n{tail}"
        )

    def _kept(self) -> str:
        if self._problem is not None:
            return self._problem
        if self._bytes > FILE_BYTES_MAX:
            return f"the first {FILE_BYTES_MAX} bytes of {self._bytes} are in {self.path}"
        return f"all of it is in {self.path}"


Take = Callable[[bytes], object]
"""What is done with the next bytes that a command printed."""


class Command:
    """A command that runs. `process.pid` is also its process group.

    If it is closed in, this first process holds it, and all of it ends with that one.
    """

    def __init__(self, process: Process, pipe: int, take: Take, *, closed: bool) -> None:
        self.process = process
        self._take = take
        self._pipe = pipe
        self._closed = closed

    async def finished(self) -> int:
        """Collect what it prints until the shell itself has ended, and return its exit code.

        What the shell started in the background may go on, and may hold the pipe open.
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._collect)
            code = await self.process.wait()
            tasks.cancel_scope.cancel()
        self._drain()
        return code

    async def _collect(self) -> None:
        while True:
            await anyio.wait_readable(self._pipe)
            chunk = self._read()
            if chunk == b"":
                return
            if chunk is not None:
                self._take(chunk)

    def _read(self) -> bytes | None:
        """The next bytes, b"" at the end, None if there are none yet."""
        try:
            return os.read(self._pipe, _CHUNK)
        except BlockingIOError:
            return None

    def _drain(self) -> None:
        """Take what is in the pipe: all that was printed before the shell ended is in it."""
        taken = 0
        while taken < _DRAIN_BYTES_MAX and (chunk := self._read()):
            self._take(chunk)
            taken += len(chunk)

    async def end(self, grace_s: float) -> None:
        """End all that is in its process group: ask, wait for the grace, kill."""
        await _end_group(self.process.pid, grace_s, spare_first=self._closed)
        self._drain()


@dataclass(frozen=True, slots=True)
class _Start:
    """What is started: the words, the environment, and whether it is closed in."""

    argv: Sequence[str]
    env: Mapping[str, str]
    closed: bool = False


@asynccontextmanager
async def started(
    argv: Sequence[str], desk: Workplace, take: Take, *, ours: bool = False
) -> AsyncIterator[Command]:
    """Start a command, closed in if its policy says so.

    When this is left by an error or by cancelling, its group is ended. A program that is `ours`
    is not closed in: it looks only where the agent may look.

    Raises:
        Unavailable: it cannot be started; or it cannot be closed in, and is not started then.
    """
    start = await to_thread.run_sync(_prepared, argv, desk, ours)
    reading, writing = os.pipe()
    try:
        try:
            process = await _open(start, desk.spec.cwd, writing)
        finally:
            os.close(writing)
        os.set_blocking(reading, False)
        running = Command(process, reading, take, closed=start.closed)
        try:
            yield running
        except BaseException:
            await running.end(_GRACE_WHEN_CANCELLED_S)
            raise
        finally:
            with anyio.move_on_after(_KILLED_WITHIN_S, shield=True):
                await process.wait()
            if start.closed:
                sandbox.clean_up(desk.spec.cwd)
    finally:
        os.close(reading)


def _prepared(argv: Sequence[str], desk: Workplace, ours: bool) -> _Start:
    spec = desk.spec
    env = for_commands(desk.env, spec.env_asked)
    rights = spec.rights
    wanted = rights.closed_in
    if ours or wanted is None:
        return _Start(argv, env)
    home = env.get("BULLPEN_HOME")
    words = sandbox.closed_in(
        argv,
        cwd=spec.cwd,
        directories=rights.directories,
        sandbox=wanted,
        env=env,
        hide=[home] if home else [],
    )
    return _Start(words, sandbox.inner_environment(env), closed=True)


def shell(command: str) -> list[str]:
    """The words that run a line in a shell."""
    return ["/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh", "-c", command]


async def _open(start: _Start, cwd: str, writing: int) -> Process:
    try:
        # Cancelled half-way, it could not be told what to end.
        with anyio.CancelScope(shield=True):
            process = await anyio.open_process(
                start.argv,
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                cwd=cwd,
                env=start.env,
                start_new_session=True,
            )
    except (OSError, ValueError) as error:
        raise Unavailable(
            f"The command cannot be started in {cwd!r}: {error}.",
            remedy="Check that the directory exists, and that the command is not too long.",
        ) from error
    return process


async def _end_group(group: int, grace_s: float, *, spare_first: bool) -> None:
    try:
        if spare_first:
            # It holds the others: were it asked, they would be killed without being asked.
            await to_thread.run_sync(_ask_others, group)
        else:
            _signal(group, signal.SIGTERM)
        with anyio.move_on_after(grace_s, shield=True):
            await _gone(group)
    finally:
        # Also when the waiting itself is cancelled: nothing may be left.
        _signal(group, signal.SIGKILL)
    with anyio.move_on_after(_KILLED_WITHIN_S, shield=True):
        await _gone(group)


async def _gone(group: int) -> None:
    # What has ended stays in its group until somebody waits for it, which may take long.
    while _signal(group, 0):
        if not await to_thread.run_sync(group_members, group):
            return
        await anyio.sleep(_POLL_S)


def _ask_others(group: int) -> None:
    for pid in group_members(group):
        if pid != group:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGTERM)


def _signal(group: int, number: int) -> bool:
    """Signal a process group. False if there is none that can be signalled."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
