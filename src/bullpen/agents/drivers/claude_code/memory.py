"""The saved session of Claude Code: its id, and which mail is in it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bullpen.agents.drivers import conversation_file

FILE = "claude-code.json"


@dataclass(slots=True)
class ClaudeMemory:
    """The session of one agent, and the messages that were in a successful request."""

    session: str = field(default_factory=lambda: str(uuid.uuid4()))
    seen: dict[str, None] = field(default_factory=dict)

    def saw(self, ids: tuple[str, ...]) -> None:
        """Remember messages as seen; drop the oldest."""
        conversation_file.remember(self.seen, ids)


def load(folder: Path) -> tuple[ClaudeMemory, str | None]:
    """The saved session, and what was wrong if the file could not be read."""
    return conversation_file.load(folder / FILE, _parsed, ClaudeMemory)


def _parsed(told: Mapping[str, Any]) -> ClaudeMemory:
    return ClaudeMemory(str(told["session"]), dict.fromkeys(map(str, told["seen"])))


def save(folder: Path, memory: ClaudeMemory) -> None:
    """Save the session. Raises Unavailable if it cannot be written."""
    conversation_file.save(folder / FILE, {"session": memory.session, "seen": list(memory.seen)})
