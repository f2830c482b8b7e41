"""The private socket on which Claude Code's hooks are answered.

The program waits for each answer. So a hook can refuse or change a call before it is made, in every
version and whatever the program's settings allow.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from bullpen.agents.drivers.claude_code import hook
from bullpen.agents.system.private_socket import PrivateSocket

Answerer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]

EVENTS = ("SessionStart", "PreToolUse", "PostToolUse", "Stop")
"""The hook events we use. All supported versions have them; an unknown event would break one."""

_WAIT_S = 86_400
_BYTES_MAX = 64 * 1024 * 1024


class HookSocket(PrivateSocket):
    """A listening socket. Every hook is one question and one answer; without one it blocks."""

    def __init__(self, answer: Answerer) -> None:
        super().__init__(self._answer_hook, bytes_max=_BYTES_MAX)
        self._answer = answer

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that make the program run our hooks."""
        words = [sys.executable, "-I", "-S", hook.__file__, self.path]
        run = {"type": "command", "command": shlex.join(words), "timeout": _WAIT_S}
        return {
            "hooks": {event: [{"matcher": "*", "hooks": [run]}] for event in EVENTS},
            # Otherwise any writable settings file could disable the hooks.
            "disableAllHooks": False,
        }

    async def _answer_hook(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        question = json.loads(await self.in_time(reader.read(_BYTES_MAX)))
        answer = await self._answer(question)
        writer.write(json.dumps(answer).encode())
        await writer.drain()
