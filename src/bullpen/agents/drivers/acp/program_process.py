"""The process of a program: start it, read its errors, stop it with everything it started."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import anyio
from anyio import to_thread

from bullpen.agents.system import processes
from bullpen.agents.system.program_sandbox import ProgramSandbox
from bullpen.agents.system.spawn_program import append_to_log, spawn_program

LOG = "program.log"
"""The file in the agent's folder for the program's stderr."""

_LOG_BYTES_MAX = 512 * 1024
_WORDS_KEPT = 30
_WORDS_CHARS_MAX = 2_000
_LINE_CHARS_MAX = 1_000
_CHUNK_BYTES = 65_536
_TERM_S = 2.0
_DRAIN_S = 0.5


class ProgramProcess:
    """A running program, the leader of its own process group."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        log: Path,
        redact: Callable[[str], str],
        sandbox: ProgramSandbox | None = None,
    ) -> None:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("The program was started without pipes.")
        self.writer = process.stdin
        self.reader = process.stdout
        self._process = process
        self._start = processes.start_of(process.pid)
        self._log = log
        self._redact = redact
        self._sandbox = sandbox
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
        sandbox: ProgramSandbox | None = None,
    ) -> ProgramProcess:
        """Start the program. Raises Unavailable if it does not exist or cannot be started."""
        pipe = asyncio.subprocess.PIPE
        process = await spawn_program(
            command,
            env=env,
            cwd=cwd,
            streams=(pipe, pipe, pipe),
            line_bytes_max=line_bytes_max,
            sandbox=sandbox,
        )
        return cls(process, log, redact, sandbox)

    @property
    def runs(self) -> bool:
        """Whether it is still running."""
        return self._process.returncode is None

    def note(self, line: str) -> None:
        """Log a line about it, or one that it should not have sent."""
        # Cut first: a line can be as long as a file, and the redactor reads all of it.
        line = self._redact(line[: 4 * _LINE_CHARS_MAX])[:_LINE_CHARS_MAX]
        self._last.append(line)
        append_to_log(self._log, f"{line}\n", bytes_max=_LOG_BYTES_MAX)

    def last_words(self) -> str:
        """How it ended, if it did, and the last lines of its stderr."""
        code = self._process.returncode
        if code is None:
            ended = ""
        elif code < 0:
            ended = f"It was killed by signal {-code}."
        else:
            ended = f"It exited with code {code}."
        words = "\n".join(self._last)[-_WORDS_CHARS_MAX:].strip()
        said = f"Its last output:\n{words}" if words else "It printed nothing."
        return f"{ended} {said}".strip()

    async def settled(self) -> None:
        """Wait a moment for a program that closed its output to end, and for its last output."""
        with anyio.move_on_after(_DRAIN_S):
            await self._process.wait()
            await asyncio.wait({self._listening})

    async def started_by_it(self) -> set[tuple[int, str]]:
        """The present descendants of the process, each as pid and start time."""
        rows = await to_thread.run_sync(processes.descendants, self._process.pid)
        return {(row.pid, row.start) for row in rows}

    async def end_since(self, before: set[tuple[int, str]], *, patience_s: float) -> None:
        """Stop the commands that it started since and that do not end by themselves soon."""
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
        """Stop it and all it started: close its input, send SIGTERM, kill. Raises Unavailable."""
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
        if self._sandbox is not None:
            await self._sandbox.aclose()

    def _in_its_group(self) -> set[tuple[int, str]]:
        """The processes in its group, also orphans, while the group is known to be its own."""
        if not self.runs:
            return set()
        rows = map(processes.look, processes.group_members(self._process.pid))
        return {(row.pid, row.start) for row in rows if row is not None}

    async def _listen(self) -> None:
        """Read its stderr to the end, so that the program never blocks on it."""
        errors = self._process.stderr
        rest = b""
        while errors is not None and (data := await errors.read(_CHUNK_BYTES)):
            # Whole lines at a time, so that no secret is cut in two, and many at once.
            lines, _, rest = (rest + data).rpartition(b"\n")
            if len(rest) > _CHUNK_BYTES:
                lines, rest = lines + b"\n" + rest, b""
            self._note_all(lines)
        self._note_all(rest)

    def _note_all(self, data: bytes) -> None:
        text = self._redact(data.decode("utf-8", "replace"))
        lines = [line.rstrip()[:_LINE_CHARS_MAX] for line in text.splitlines() if line.strip()]
        self._last.extend(lines)
        if lines:
            # More would only be cut from the log at once.
            log = "".join(f"{line}\n" for line in lines)[-_LOG_BYTES_MAX:]
            append_to_log(self._log, log, bytes_max=_LOG_BYTES_MAX)
