"""Notifies your commands of what happens in a team: JSON on standard input, for chat or CI.

Each command gets one happening after another, in order. A command that fails or hangs is reported
and delays nobody. The last event that every command got is recorded, so that what happens while
nobody watches is sent later; a notice that a kill interrupts is sent again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from bullpen.protocol import json_text
from bullpen.view.notable_events import Happening, Kind
from bullpen.workspace.merge_queue.user_command import run_command

WAITING_MAX = 1_000
"""How many happenings wait for one command; beyond that the oldest are dropped."""

_OUTPUT_MAX = 400


@dataclass(frozen=True, slots=True)
class Notified:
    """A command to notify, of these kinds of happenings or of all."""

    run: str
    on: tuple[Kind, ...] = ()
    timeout_s: float = 30.0


@dataclass(slots=True)
class _Line:
    """The happenings that wait for one command."""

    told: Notified
    waiting: deque[Happening] = field(default_factory=deque)
    dropped: int = 0
    # Held by whoever runs the command.
    busy: anyio.Lock = field(default_factory=anyio.Lock)


class Notifier:
    """Notifies commands of what happens in one team."""

    def __init__(
        self,
        commands: Sequence[Notified],
        *,
        cwd: str,
        environ: Mapping[str, str],
        kept: Path,
        tell: Callable[[str], None],
    ) -> None:
        """`kept` is the file that records the last event; `tell` gets what went wrong."""
        self._lines = [_Line(told) for told in commands]
        self._cwd = Path(cwd)
        self._environ = environ
        self._kept = kept
        self._tell = tell
        self._stirred = anyio.Event()
        self._seq = 0

    def told_until(self) -> int | None:
        """Return the last event that every command got; None if there is none."""
        try:
            row = json_text.loads(self._kept.read_bytes())
        except (OSError, ValueError):
            return None
        seq = row.get("seq") if isinstance(row, dict) else None
        return seq if isinstance(seq, int) else None

    def hear(self, happening: Happening) -> None:
        """Queue a happening for all commands that want its kind."""
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
        """Run the commands until cancelled."""
        async with anyio.create_task_group() as group:
            for line in self._lines:
                group.start_soon(self._serve, line)

    async def drain(self, *, within_s: float) -> None:
        """Send what is left, within a time that nothing lengthens.

        It needs none of the tasks of `run`, which may have been cancelled.
        """
        with anyio.move_on_after(within_s, shield=True):
            async with anyio.create_task_group() as group:
                for line in self._lines:
                    group.start_soon(self._empty, line)
        left = sum(len(line.waiting) for line in self._lines)
        if left:
            self._tell(f"{left} notices were not sent within {within_s:.0f} s")

    async def _serve(self, line: _Line) -> None:
        while True:
            await self._empty(line)
            stirred = self._stirred
            if not line.waiting:
                await stirred.wait()
                self._stirred = anyio.Event() if self._stirred is stirred else self._stirred

    async def _empty(self, line: _Line) -> None:
        async with line.busy:
            while line.waiting:
                if line.dropped:
                    self._tell(
                        f"{line.dropped} notices were dropped: `{line.told.run}` is too slow"
                    )
                    line.dropped = 0
                # It stays in the line until the command ended: after a kill it is sent again.
                happening = line.waiting[0]
                await self._send(line.told, happening)
                if line.waiting and line.waiting[0] is happening:
                    line.waiting.popleft()
                await anyio.to_thread.run_sync(self._keep)

    def _keep(self) -> None:
        """Record the last event that every command got."""
        first = [line.waiting[0].seq for line in self._lines if line.waiting]
        open_from = [seq for seq in first if seq is not None]
        seq = min(open_from) - 1 if open_from else self._seq
        with suppress(OSError):
            self._kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh = self._kept.with_suffix(".new")
            fresh.write_bytes(json_text.dumps_line({"seq": seq}))
            fresh.replace(self._kept)

    async def _send(self, told: Notified, happening: Happening) -> None:
        """Run a command for one happening, and report if it fails."""
        ended = await run_command(
            told.run,
            cwd=self._cwd,
            env=self._environ,
            seconds=told.timeout_s,
            given=json_text.dumps_line(json_text.shaped("happening/1", happening.row)) + b"\n",
        )
        if not ended.ok:
            how, _, said = ended.words.partition("\n")
            why = f"{how}: {' '.join(said.split())[-_OUTPUT_MAX:]}".rstrip(": ")
            self._tell(f"the notice `{told.run}` failed: {why}")
