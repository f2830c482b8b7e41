"""The saved session of an agent: which conversation is its own, and which mail is in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bullpen.agents.drivers import conversation_file

FILE = "acp.json"


@dataclass(slots=True)
class AcpMemory:
    """The session of one agent. `introduced` says that the program was told who it is."""

    session: str | None = None
    introduced: bool = False
    # The messages that were in a successful request, oldest first.
    seen: dict[str, None] = field(default_factory=dict)
    # The cost of the session so far, as last reported.
    cost_usd: float = 0.0
    # When a program last opened it, in wall-clock time.
    opened_at: float = 0.0

    def saw(self, ids: tuple[str, ...]) -> None:
        """Remember messages as seen; drop the oldest."""
        conversation_file.remember(self.seen, ids)

    def forget(self) -> None:
        """Forget the session and everything that was said in it."""
        self.session, self.introduced, self.cost_usd = None, False, 0.0
        self.seen.clear()


def load(folder: Path) -> tuple[AcpMemory, str | None]:
    """The saved session, and what was wrong if the file could not be read."""
    return conversation_file.load(folder / FILE, _parsed, AcpMemory)


def _parsed(told: Mapping[str, Any]) -> AcpMemory:
    return AcpMemory(
        session=told["session"],
        introduced=bool(told["introduced"]),
        seen=dict.fromkeys(map(str, told["seen"])),
        cost_usd=float(told["cost_usd"]),
        opened_at=float(told["opened_at"]),
    )


def save(folder: Path, memory: AcpMemory) -> None:
    """Save the session. Raises Unavailable if it cannot be written."""
    conversation_file.save(folder / FILE, {**asdict(memory), "seen": list(memory.seen)})
