"""Where the hooks of Claude Code are answered: a socket that only this user can open.

The program waits for each answer before it goes on. That makes a hook the one place where a call
can be refused or changed before it is made, in every version and whatever its settings allow.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from bullpen.agents.drivers.claude_code import hook
from bullpen.agents.private_socket import PrivateSocket

Answerer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]

EVENTS = ("SessionStart", "PreToolUse", "PostToolUse", "Stop")
"""What the program tells us. All pinned versions know these; an unknown name would stop one."""

_WAIT_S = 86_400
_BYTES_MAX = 64 * 1024 * 1024


class HookPost:
    """A listening socket, from `open` to `aclose`. Every hook is one question and one answer."""

    def __init__(self, answer: Answerer) -> None:
        self._answer = answer
        self._socket = PrivateSocket(self._visit, bytes_max=_BYTES_MAX)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that make the program ask here."""
        words = [sys.executable, "-I", "-S", hook.__file__, self._socket.path]
        run = {"type": "command", "command": shlex.join(words), "timeout": _WAIT_S}
        return {
            "hooks": {event: [{"matcher": "*", "hooks": [run]}] for event in EVENTS},
            # Whoever could write a settings file could otherwise switch them off.
            "disableAllHooks": False,
        }

    async def open(self) -> None:
        """Listen."""
        await self._socket.open()

    async def hang_up(self) -> None:
        """Answer nobody who waits now: the turn that they belong to is over."""
        await self._socket.hang_up()

    async def aclose(self) -> None:
        """Answer nobody any more: a hook without an answer blocks."""
        await self._socket.aclose()

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = json.loads(await reader.read(_BYTES_MAX))
        answer = await self._answer(asked)
        writer.write(json.dumps(answer).encode())
        await writer.drain()
