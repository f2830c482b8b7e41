"""Claude Code in a terminal of its own: its start, the key that interrupts it, its end."""

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

from bullpen.agents import processes
from bullpen.agents.drivers.programs import found_at
from bullpen.errors import Unavailable

LOG = "screen.log"
"""Where in the agent's folder everything is that the program drew."""

_ROWS, _COLUMNS = 40, 120
_ESCAPE = b"\x1b"
_LOG_BYTES_MAX = 1024 * 1024
_WORDS_BYTES = 8_000
_WORDS_CHARS = 1_500
_DRAWING = re.compile(rb"\x1b(\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][0-9A-B]|.)")


class Terminal:
    """A program that was started in a terminal, as the leader of a process group of its own."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        master: int,
        log: Path,
        redact: Callable[[str], str],
    ) -> None:
        self._process = process
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
    ) -> Terminal:
        """Start it. Raises Unavailable if there is no such program, or it cannot be started."""
        path = found_at(tuple(command), env.get("PATH", ""), cwd)
        if path is None:
            raise Unavailable(
                f"There is no program {command[0]!r} on the agent's PATH.",
                remedy="Install it: npm install -g @anthropic-ai/claude-code",
            )
        master, slave = os.openpty()
        try:
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
            process = await asyncio.create_subprocess_exec(
                path,
                *command[1:],
                stdin=slave,
                stdout=slave,
                stderr=slave,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            os.close(master)
            raise Unavailable(f"{path} cannot be started: {error.strerror}.") from error
        finally:
            os.close(slave)
        return cls(process, master, log, redact)

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.returncode is None

    def interrupt(self) -> None:
        """Press the key that breaks off what it does."""
        with suppress(OSError):
            os.write(self._master, _ESCAPE)

    def last_words(self) -> str:
        """How it ended if it did, and the end of what it drew, without the drawing."""
        code = self._process.returncode
        ended = "" if code is None else f"It ended with status {code}. "
        plain = _DRAWING.sub(b" ", self._last).decode("utf-8", "replace")
        words = " ".join(self._redact(plain).split())[-_WORDS_CHARS:]
        return f"{ended}Its screen ended with: {words}" if words else f"{ended}It drew nothing."

    async def end(self, grace_s: float) -> None:
        """End it, with all that it started: its commands have groups of their own.

        Raises:
            Unavailable: something of it still runs; the text names it.
        """
        started = await to_thread.run_sync(processes.descendants, self._process.pid)
        try:
            pid = self._process.pid
            await processes.end(pid, self._start, pid, "", grace_s)
            await processes.end_each({(row.pid, row.start) for row in started}, grace_s=0.0)
            await self._process.wait()
        finally:
            self._close()

    def _drain(self) -> None:
        """Take what it drew: a program whose terminal nobody reads stands still."""
        try:
            data = os.read(self._master, 65_536)
        except BlockingIOError:
            return
        except OSError:
            # The other end is closed: the program has ended.
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._master)
            return
        self._last = (self._last + data)[-_WORDS_BYTES:]
        # A full disk must not end a turn: the last words are still known.
        with suppress(OSError):
            too_long = self._log.exists() and self._log.stat().st_size > _LOG_BYTES_MAX
            with self._log.open("w" if too_long else "a", encoding="utf-8") as file:
                file.write(self._redact(data.decode("utf-8", "replace")))

    def _close(self) -> None:
        if self._master >= 0:
            asyncio.get_running_loop().remove_reader(self._master)
            os.close(self._master)
            self._master = -1
