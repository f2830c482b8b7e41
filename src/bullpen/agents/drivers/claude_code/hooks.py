"""Where the hooks of Claude Code are answered: a socket that only this user can open.

The program waits for each answer before it goes on. That makes a hook the one place where a call
can be refused or changed before it is made, in every version and whatever its settings allow.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from bullpen.agents.drivers.claude_code import hook

Answerer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]

EVENTS = ("SessionStart", "PreToolUse", "PostToolUse", "Stop")
"""What the program tells us. All pinned versions know these; an unknown name would stop one."""

_WAIT_S = 86_400
_BYTES_MAX = 64 * 1024 * 1024


class HookPost:
    """A listening socket, from `open` to `aclose`. Every hook is one question and one answer."""

    def __init__(self, answer: Answerer) -> None:
        self._answer = answer
        self._folder: Path | None = None
        self._listening: asyncio.Server | None = None
        self._visits: set[asyncio.Task[None]] = set()

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that make the program ask here."""
        if self._folder is None:
            raise RuntimeError("The post is not open.")
        words = [sys.executable, "-I", "-S", hook.__file__, str(self._folder / "s")]
        run = {"type": "command", "command": shlex.join(words), "timeout": _WAIT_S}
        return {
            "hooks": {event: [{"matcher": "*", "hooks": [run]}] for event in EVENTS},
            # Whoever could write a settings file could otherwise switch them off.
            "disableAllHooks": False,
        }

    async def open(self) -> None:
        """Listen. The name of the folder is short: sockets have no others."""
        self._folder = Path(tempfile.mkdtemp(prefix="bullpen-hook-"))
        self._listening = await asyncio.start_unix_server(
            self._visit, str(self._folder / "s"), limit=_BYTES_MAX
        )

    async def hang_up(self) -> None:
        """Answer nobody who waits now: the turn that they belong to is over."""
        for visit in list(self._visits):
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)

    async def aclose(self) -> None:
        """Answer nobody any more."""
        if self._listening is not None:
            self._listening.close()
        await self.hang_up()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._visits.add(task)
            task.add_done_callback(self._visits.discard)
        try:
            asked = json.loads(await reader.read(_BYTES_MAX))
            answer = await self._answer(asked)
            writer.write(json.dumps(answer).encode())
            await writer.drain()
        except (OSError, ValueError):
            # The program broke it off, or it was no question: the hook blocks without an answer.
            pass
        finally:
            with suppress(OSError):
                writer.close()
