"""Telling the world outside what happens: commands of the user's that read JSON, for chat or CI.

Each command hears of one thing after another, in the order in which they happened. A command that
fails or hangs is told in the news and holds up nobody. How far all of them were told is kept, so
that what happened while nobody watched is told later; what was just being told when the process
was killed is told again.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from bullpen.protocol import jsontext
from bullpen.unattended.happenings import Happening, Kind

WAITING_MAX = 1_000
"""So many happenings wait for one command at most; the oldest go first."""

_DRAIN_S = 60.0
_OUTPUT_MAX = 400


@dataclass(frozen=True, slots=True)
class Told:
    """A command that is told what happens; of everything, if it names nothing."""

    run: str
    on: tuple[Kind, ...] = ()
    timeout_s: float = 30.0


@dataclass(slots=True)
class _Line:
    """What waits to be told to one command."""

    told: Told
    waiting: deque[Happening] = field(default_factory=deque)
    dropped: int = 0


class Notices:
    """Tells commands what happens in one team."""

    def __init__(
        self, commands: Sequence[Told], *, cwd: str, environ: Mapping[str, str], kept: Path
    ) -> None:
        """`kept` is the file that says how far the log of the team was told."""
        self._lines = [_Line(told) for told in commands]
        self._cwd = cwd
        self._environ = environ
        self._kept = kept
        self._stirred = anyio.Event()
        self._told_one = anyio.Event()
        self._seq = 0
        # Where it is told what went wrong.
        self.tell: Callable[[str], None] = lambda _: None

    def told_until(self) -> int | None:
        """The last event that every command was told of; None if none ever was."""
        try:
            row = jsontext.loads(self._kept.read_bytes())
        except (OSError, ValueError):
            return None
        seq = row.get("seq") if isinstance(row, dict) else None
        return seq if isinstance(seq, int) else None

    def hear(self, happening: Happening) -> None:
        """Take note of something; it is told soon."""
        for line in self._lines:
            if line.told.on and happening.kind not in line.told.on:
                continue
            if len(line.waiting) >= WAITING_MAX:
                line.waiting.popleft()
                line.dropped += 1
            line.waiting.append(happening)
        self._seq = max(self._seq, happening.seq or 0)
        self._stirred.set()

    async def run(self) -> None:
        """Tell until cancelled."""
        async with anyio.create_task_group() as group:
            for line in self._lines:
                group.start_soon(self._serve, line)

    async def drain(self) -> None:
        """Wait until everything is told, for a while at most."""
        with anyio.move_on_after(_DRAIN_S, shield=True):
            while any(line.waiting for line in self._lines):
                await self._told_one.wait()
        left = sum(len(line.waiting) for line in self._lines)
        if left:
            self.tell(f"{left} notices were not told in {_DRAIN_S:.0f} s")

    async def _serve(self, line: _Line) -> None:
        while True:
            await self._empty(line)
            stirred = self._stirred
            if not line.waiting:
                await stirred.wait()
                self._stirred = anyio.Event() if self._stirred is stirred else self._stirred

    async def _empty(self, line: _Line) -> None:
        while line.waiting:
            if line.dropped:
                self.tell(f"{line.dropped} notices were dropped: `{line.told.run}` is too slow")
                line.dropped = 0
            # It leaves the line when it was told: a kill in between tells it again.
            happening = line.waiting[0]
            why = await self._ran(line.told, happening)
            if line.waiting and line.waiting[0] is happening:
                line.waiting.popleft()
            if why is not None:
                self.tell(f"the notice `{line.told.run}` {why}")
            await anyio.to_thread.run_sync(self._keep)
            self._told_one.set()
            self._told_one = anyio.Event()

    def _keep(self) -> None:
        """Keep how far everybody was told."""
        first = [line.waiting[0].seq for line in self._lines if line.waiting]
        open_from = [seq for seq in first if seq is not None]
        seq = min(open_from) - 1 if open_from else self._seq
        with suppress(OSError):
            self._kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh = self._kept.with_suffix(".new")
            fresh.write_bytes(jsontext.dumps_line({"seq": seq}))
            fresh.replace(self._kept)

    async def _ran(self, told: Told, happening: Happening) -> str | None:
        """Run a command for one happening; what went wrong, if something did."""
        given = jsontext.dumps_line(happening.row) + b"\n"
        return await anyio.to_thread.run_sync(
            _run, told, given, self._cwd, dict(self._environ), abandon_on_cancel=True
        )


def _run(told: Told, given: bytes, cwd: str, environ: dict[str, str]) -> str | None:
    try:
        process = subprocess.Popen(  # noqa: S602 - a command line of the user's own
            told.run,
            shell=True,
            cwd=cwd,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return f"cannot be run: {error.strerror or error}"
    try:
        said, _ = process.communicate(given, timeout=told.timeout_s)
    except subprocess.TimeoutExpired:
        said, code = b"", None
    else:
        code = process.returncode
    # Whatever it left behind goes with it.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if code is None:
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=1.0)
        return f"took longer than {told.timeout_s:g} s and was ended"
    if code == 0:
        return None
    text = " ".join(said.decode("utf-8", "replace").split())[-_OUTPUT_MAX:]
    return f"failed with {code}: {text}".rstrip(": ")
