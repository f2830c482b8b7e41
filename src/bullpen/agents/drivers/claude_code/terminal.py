"""Run Claude Code in its own terminal: start it, interrupt it, stop it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import struct
import termios
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from anyio import to_thread

from bullpen.agents.system import processes
from bullpen.agents.system.program_sandbox import ProgramSandbox
from bullpen.agents.system.spawn_program import append_to_log, spawn_program

LOG = "screen.log"
"""The file in the agent's folder for everything the program drew on its terminal."""

_ROWS, _COLUMNS = 40, 120
_ESCAPE = b"\x1b"
_LOG_BYTES_MAX = 1024 * 1024
_WORDS_BYTES = 8_000
_WORDS_CHARS = 1_500
_DRAWING = re.compile(rb"\x1b(\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][0-9A-B]|.)")


class Terminal:
    """A program in a terminal, the leader of its own process group."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        master: int,
        log: Path,
        redact: Callable[[str], str],
        sandbox: ProgramSandbox | None = None,
    ) -> None:
        self._process = process
        self._sandbox = sandbox
        self._start = processes.start_of(process.pid)
        self._master = master
        self._log = log
        self._redact = redact
        self._last = b""
        os.set_blocking(master, False)
        asyncio.get_running_loop().add_reader(master, self._drain)

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        log: Path,
        redact: Callable[[str], str],
        sandbox: ProgramSandbox | None = None,
    ) -> Terminal:
        """Start the program. Raises Unavailable if it does not exist or cannot be started."""
        master, slave = os.openpty()
        try:
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
            process = await spawn_program(
                command,
                env=env,
                cwd=cwd,
                streams=(slave, slave, slave),
                remedy="Install it: npm install -g @anthropic-ai/claude-code",
                sandbox=sandbox,
            )
        except BaseException:
            os.close(master)
            raise
        finally:
            os.close(slave)
        return cls(process, master, log, redact, sandbox)

    @property
    def runs(self) -> bool:
        """Whether it is still running."""
        return self._process.returncode is None

    def interrupt(self) -> None:
        """Press the key that interrupts it."""
        with suppress(OSError):
            os.write(self._master, _ESCAPE)

    def last_words(self) -> str:
        """How it ended, if it did, and the last text on its screen."""
        code = self._process.returncode
        ended = "" if code is None else f"It exited with code {code}. "
        plain = _DRAWING.sub(b" ", self._last).decode("utf-8", "replace")
        words = " ".join(self._redact(plain).split())[-_WORDS_CHARS:]
        return f"{ended}Its last output: {words}" if words else f"{ended}It printed nothing."

    async def end(self, grace_s: float) -> None:
        """Stop it and all it started: its commands have their own groups. Raises Unavailable."""
        started = await to_thread.run_sync(processes.descendants, self._process.pid)
        try:
            pid = self._process.pid
            await processes.end(pid, self._start, pid, "", grace_s)
            await processes.end_each({(row.pid, row.start) for row in started}, grace_s=0.0)
            await self._process.wait()
        finally:
            self._close()
            if self._sandbox is not None:
                await self._sandbox.aclose()

    def _drain(self) -> None:
        """Read what it drew: a program whose terminal nobody reads blocks."""
        try:
            data = os.read(self._master, 65_536)
        except BlockingIOError:
            return
        except OSError:
            # The other end is closed: the program ended.
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._master)
            return
        self._last = (self._last + data)[-_WORDS_BYTES:]
        text = self._redact(data.decode("utf-8", "replace"))
        append_to_log(self._log, text, bytes_max=_LOG_BYTES_MAX)

    def _close(self) -> None:
        if self._master >= 0:
            asyncio.get_running_loop().remove_reader(self._master)
            os.close(self._master)
            self._master = -1
