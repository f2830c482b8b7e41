"""Run one command in its own process group, with limited output and a guaranteed end."""

from __future__ import annotations

import codecs
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO, Protocol, Self

import anyio
from anyio import to_thread
from anyio.abc import Process

from bullpen.agents.contracts.backend import NONCE
from bullpen.agents.system.environment import for_commands, without_person_key
from bullpen.agents.system.process_owners import owned
from bullpen.agents.system.processes import group_members, table
from bullpen.agents.system.secrets import Redactor
from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.policy import Sandbox
from bullpen.sandbox.command import sandboxed_command
from bullpen.sandbox.inner_environment import inner_environment
from bullpen.sandbox.network.host_rules import HostList
from bullpen.sandbox.network.namespace import SandboxNetwork
from bullpen.store.private_folder import make_private

HEAD_CHARS = 10_000
TAIL_CHARS = 20_000
"""How much of a long output is shown: its start and its end."""

FILE_BYTES_MAX = 256 * 1024 * 1024
"""How much of an output is saved in a file."""

_CHUNK = 65_536
_DRAIN_BYTES_MAX = 1024 * 1024
_POLL_S = 0.02
_GRACE_WHEN_CANCELLED_S = 0.5
_KILLED_WITHIN_S = 2.0


class Workplace(Protocol):
    """Where commands run, with which environment and sandbox. Every desk is one."""

    @property
    def spec(self) -> AgentSpec:
        """The spec whose directory and policy apply."""

    @property
    def env(self) -> Mapping[str, str]:
        """The environment of the commands."""


class Output:
    """The output of a command: start and end in memory, all of it in a file if it is long.

    With `whole`, the file exists from the start. Secrets of the workplace are redacted in both.
    """

    def __init__(self, path: Path, place: Workplace, *, whole: bool = False) -> None:
        self.path = path
        self._chars = 0
        self._bytes = 0
        # Bytes that are not text go into the file unchanged.
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

    def __exit__(self, *error: object) -> None:
        self._finish()
        if self._file is not None:
            self._file.close()

    def add(self, chunk: bytes) -> None:
        """Add the next bytes. If the file cannot be written, the text says so."""
        self._take(self._pieces.feed(self._decoder.decode(chunk)))

    def _finish(self) -> None:
        """Add what the redactor held back. May be called twice."""
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
            self._problem = f"it could not be saved in {self.path}: {error.strerror}"
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
        make_private(self.path.parent)
        # Unbuffered: the file is read while it grows.
        self._file = open(self.path, "xb", buffering=0, opener=_privately)  # noqa: SIM115 - closed on exit

    def text(self) -> str:
        """The text to show, and where the rest is."""
        self._finish()
        tail = self._tail[-TAIL_CHARS:]
        left_out = self._chars - len(self._head) - len(tail)
        if not left_out:
            return self._head + tail
        return f"{self._head}\n\n[... {left_out} characters skipped; {self._kept()} ...]\n\n{tail}"

    def _kept(self) -> str:
        if self._problem is not None:
            return self._problem
        if self._bytes > FILE_BYTES_MAX:
            return f"the first {FILE_BYTES_MAX} bytes of {self._bytes} are in {self.path}"
        return f"the full output is in {self.path}"


Take = Callable[[bytes], object]
"""Takes the next bytes of a command's output."""


def keep_first(kept: bytearray, most: int) -> Take:
    """Take only the first bytes of an output; what comes after them is read and forgotten."""

    def take(chunk: bytes) -> None:
        kept.extend(chunk[: most - len(kept)])

    return take


class _Pipe:
    """A pipe that a process prints to."""

    def __init__(self, take: Take) -> None:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        self._take = take

    async def collect(self) -> None:
        """Take output until the last process that can print has ended."""
        while True:
            await anyio.wait_readable(self.reading)
            chunk = self._read()
            if chunk == b"":
                return
            if chunk is not None:
                self._take(chunk)

    def _read(self) -> bytes | None:
        """The next bytes, b"" at the end, None if there are none yet."""
        try:
            return os.read(self.reading, _CHUNK)
        except BlockingIOError:
            return None

    def drain(self) -> None:
        """Take what is in the pipe: everything that was printed before the process ended."""
        taken = 0
        while taken < _DRAIN_BYTES_MAX and (chunk := self._read()):
            self._take(chunk)
            taken += len(chunk)


class Command:
    """A running command. `process.pid` is also its process group.

    In a sandbox, the first process is the sandbox, and everything in it ends with that process.
    """

    def __init__(self, process: Process, pipes: Sequence[_Pipe], *, closed: bool) -> None:
        self.process = process
        self._pipes = pipes
        self._closed = closed

    async def finished(self) -> int:
        """Collect output until the shell itself has ended, and return its exit code.

        Background processes of the shell may keep running and keep the pipes open.
        """
        async with anyio.create_task_group() as tasks:
            for pipe in self._pipes:
                tasks.start_soon(pipe.collect)
            code = await self.process.wait()
            tasks.cancel_scope.cancel()
        self._drain()
        return code

    def _drain(self) -> None:
        for pipe in self._pipes:
            pipe.drain()

    async def end(self, grace_s: float) -> None:
        """Stop its process group: SIGTERM, the grace period, SIGKILL."""
        await _end_group(self.process.pid, grace_s, spare_first=self._closed)
        self._drain()


@asynccontextmanager
async def started(
    argv: Sequence[str],
    desk: Workplace,
    *takes: Take,
    ours: bool = False,
    stdin: int = subprocess.DEVNULL,
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[Command]:
    """Start a command, in a sandbox if the policy says so.

    `takes` gets the output, as in `running`. If the context exits with an error or is cancelled,
    the process group is killed. A program that is `ours` is not sandboxed: it reads only where the
    agent may read. `env` replaces the environment of the agent's commands. Raises Unavailable.
    """
    spec = desk.spec
    env = for_commands(desk.env, spec) if env is None else env
    wanted = None if ours else spec.policy.sandbox
    if wanted is None:
        async with running(argv, cwd=spec.cwd, env=env, takes=takes, stdin=stdin) as command:
            yield command
        return
    hosts = HostList.of(wanted)
    async with AsyncExitStack() as stack:
        network = None
        if hosts:
            network = await stack.enter_async_context(SandboxNetwork(hosts, env))
        home = desk.env.get("BULLPEN_HOME")
        words, inner = await to_thread.run_sync(_sandboxed, argv, env, spec, wanted, network, home)
        command = await stack.enter_async_context(
            running(
                words,
                cwd=spec.cwd,
                env=inner,
                takes=takes,
                stdin=stdin,
                closed=True,
                network=network,
            )
        )
        yield command


def _sandboxed(
    argv: Sequence[str],
    env: Mapping[str, str],
    spec: AgentSpec,
    wanted: Sandbox,
    network: SandboxNetwork | None,
    home: str | None,
) -> tuple[Sequence[str], dict[str, str]]:
    """The command that runs another in a sandbox, and its environment."""
    words = sandboxed_command(
        argv,
        cwd=spec.cwd,
        directories=spec.policy.directories,
        sandbox=wanted,
        env=env,
        hide=[home] if home else [],
        network=network,
    )
    return words, inner_environment(env, None if network is None else network.env)


@asynccontextmanager
async def running(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    takes: Sequence[Take],
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    grace_s: float = _GRACE_WHEN_CANCELLED_S,
    closed: bool = False,
    network: SandboxNetwork | None = None,
) -> AsyncIterator[Command]:
    """Start a command in its own process group, which is killed if the context exits by an error.

    `takes` gets the output: one for both streams, or two. Raises Unavailable if it cannot start.
    """
    pipes = [_Pipe(take) for take in takes]
    try:
        try:
            fds = () if network is None else network.fds
            process = await _open(argv, cwd, env, stdin, [pipe.writing for pipe in pipes], fds)
        finally:
            if network is not None:
                network.has_started()
            for pipe in pipes:
                os.close(pipe.writing)
        command = Command(process, pipes, closed=closed)
        with owned(process.pid, env.get(NONCE)):
            try:
                yield command
            except BaseException:
                await command.end(grace_s)
                raise
            finally:
                with anyio.move_on_after(_KILLED_WITHIN_S, shield=True):
                    await process.wait()
    finally:
        for pipe in pipes:
            os.close(pipe.reading)


def _privately(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def shell(command: str) -> list[str]:
    """The command that runs a line in a shell."""
    return ["/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh", "-c", command]


async def _open(
    argv: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    stdin: int | IO[bytes],
    outputs: Sequence[int],
    fds: Sequence[int],
) -> Process:
    try:
        # If this were cancelled half-way, the process could not be killed.
        with anyio.CancelScope(shield=True):
            process = await anyio.open_process(
                argv,
                stdin=stdin,
                stdout=outputs[0],
                stderr=outputs[-1],
                cwd=cwd,
                env=without_person_key(env),
                start_new_session=True,
                pass_fds=fds,
            )
    except (OSError, ValueError) as error:
        raise Unavailable(
            f"The command cannot be started in {cwd!r}: {error}.",
            remedy="Check that the directory exists and that the command is not too long.",
        ) from error
    return process


async def _end_group(group: int, grace_s: float, *, spare_first: bool) -> None:
    try:
        if spare_first:
            # Spare the sandbox: if it ended first, the others would be killed at once.
            await to_thread.run_sync(_ask_others, group)
        else:
            _signal(group, signal.SIGTERM)
        with anyio.move_on_after(grace_s, shield=True):
            await _gone(group)
    finally:
        # Even if the wait itself is cancelled: nothing may be left running.
        _signal(group, signal.SIGKILL)
    with anyio.move_on_after(_KILLED_WITHIN_S, shield=True):
        await _gone(group)


async def _gone(group: int) -> None:
    # Ended processes stay in the group until they are reaped, which may take long.
    while _signal(group, 0):
        if not await to_thread.run_sync(group_members, group):
            return
        await anyio.sleep(_POLL_S)


def _ask_others(group: int) -> None:
    for row in table():
        # The sandbox is the first process, or with a network the first and its child.
        if row.group == group and row.runs and group not in (row.pid, row.parent):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(row.pid, signal.SIGTERM)


def _signal(group: int, number: int) -> bool:
    """Signal a process group. False if no process can be signalled."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
