"""The process of a driven program: its start, its last words, and its end with all it started."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import anyio
from anyio import to_thread

from bullpen.agents import processes
from bullpen.agents.drivers.programs import found_at
from bullpen.errors import Unavailable

LOG = "program.log"
"""Where in the agent's folder the program's errors are."""

_LOG_BYTES_MAX = 512 * 1024
_WORDS_KEPT = 30
_WORDS_CHARS_MAX = 2_000
_LINE_CHARS_MAX = 1_000
_TERM_S = 2.0
_DRAIN_S = 0.5


class Program:
    """A program that was started, as the leader of a process group of its own."""

    def __init__(
        self, process: asyncio.subprocess.Process, log: Path, redact: Callable[[str], str]
    ) -> None:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("The program was started without pipes.")
        self.writer = process.stdin
        self.reader = process.stdout
        self._process = process
        self._start = processes.start_of(process.pid)
        self._log = log
        self._redact = redact
        self._last: deque[str] = deque(maxlen=_WORDS_KEPT)
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        log: Path,
        redact: Callable[[str], str],
        line_bytes_max: int,
    ) -> Program:
        """Start it. Raises Unavailable if there is no such program, or it cannot be started."""
        path = found_at(tuple(command), env.get("PATH", ""), cwd)
        if path is None:
            raise Unavailable(f"There is no program {command[0]} in the agent's PATH.")
        try:
            process = await asyncio.create_subprocess_exec(
                path,
                *command[1:],
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
                limit=line_bytes_max,
            )
        except OSError as error:
            raise Unavailable(f"{path} cannot be started: {error.strerror}.") from error
        return cls(process, log, redact)

    @property
    def runs(self) -> bool:
        """Whether it has not ended by itself."""
        return self._process.returncode is None

    def note(self, line: str) -> None:
        """Keep a line of its errors, or one that it should not have sent."""
        line = self._redact(line)[:_LINE_CHARS_MAX]
        self._last.append(line)
        try:
            too_long = self._log.exists() and self._log.stat().st_size > _LOG_BYTES_MAX
            with self._log.open("w" if too_long else "a", encoding="utf-8") as file:
                file.write(f"{line}\n")
        except OSError:
            # The last lines are still known; a full disk must not end a turn.
            return

    def last_words(self) -> str:
        """How it ended if it did, and the last of what it wrote to its errors."""
        code = self._process.returncode
        if code is None:
            ended = ""
        elif code < 0:
            ended = f"It was ended by signal {-code}."
        else:
            ended = f"It ended with status {code}."
        words = "\n".join(self._last)[-_WORDS_CHARS_MAX:].strip()
        said = f"Its last words:\n{words}" if words else "It left no words."
        return f"{ended} {said}".strip()

    async def settled(self) -> None:
        """Wait a moment for a program that closes its output to end, and for its last words."""
        with anyio.move_on_after(_DRAIN_S):
            await self._process.wait()
            await asyncio.wait({self._listening})

    async def started_by_it(self) -> set[tuple[int, str]]:
        """The processes that descend from it now, each by its pid and start."""
        rows = await to_thread.run_sync(processes.descendants, self._process.pid)
        return {(row.pid, row.start) for row in rows}

    async def end_since(self, before: set[tuple[int, str]], *, patience_s: float) -> None:
        """End the commands that it started since, those that do not end by themselves soon."""
        deadline = anyio.current_time() + patience_s
        while self.runs:
            left = await self.started_by_it() - before
            if not left:
                return
            if anyio.current_time() >= deadline:
                await processes.end_each(left, grace_s=0.2)
                return
            await anyio.sleep(0.05)

    async def end(self, grace_s: float) -> None:
        """End it: its input is closed, it is asked, it is killed; with all that it started.

        Raises:
            Unavailable: something of it still runs; the text names it.
        """
        started = await self.started_by_it() | await to_thread.run_sync(self._in_its_group)
        self.writer.close()
        with anyio.move_on_after(grace_s):
            await self._process.wait()
        started |= await self.started_by_it()
        pid = self._process.pid
        await processes.end(pid, self._start, pid, "", 0.0 if grace_s <= 0 else _TERM_S)
        await processes.end_each(started, grace_s=0.2)
        await self._process.wait()
        with anyio.move_on_after(_DRAIN_S):
            await asyncio.wait({self._listening})
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)

    def _in_its_group(self) -> set[tuple[int, str]]:
        """What is in its group: also what lost its parent. Only while it proves whose it is."""
        if not self.runs:
            return set()
        rows = map(processes.look, processes.group_members(self._process.pid))
        return {(row.pid, row.start) for row in rows if row is not None}

    async def _listen(self) -> None:
        """Read its errors to the end, so that it never waits for somebody to do it."""
        errors = self._process.stderr
        if errors is None:
            return
        while True:
            try:
                line = await errors.readline()
            except ValueError:
                # A line without end: what was read of it is gone, the next one counts.
                continue
            if not line:
                return
            self.note(line.decode("utf-8", "replace").rstrip())
