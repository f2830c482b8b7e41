"""What Claude Code's conversation is called, and which mail is in it: kept across processes."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from bullpen.agents.drivers.kept import remember, write_whole
from bullpen.errors import Unavailable

FILE = "claude-code.json"


@dataclass(slots=True)
class Memory:
    """The session of one agent, and the messages that were in a request which succeeded."""

    session: str = field(default_factory=lambda: str(uuid.uuid4()))
    seen: dict[str, None] = field(default_factory=dict)

    def saw(self, ids: tuple[str, ...]) -> None:
        """Remember messages; the oldest are forgotten, whose mail is long settled."""
        remember(self.seen, ids)


def load(folder: Path) -> tuple[Memory, str | None]:
    """The memory of an agent, and what was wrong with the file if it could not be read."""
    path = folder / FILE
    try:
        told = json.loads(path.read_bytes())
        return Memory(str(told["session"]), dict.fromkeys(map(str, told["seen"]))), None
    except FileNotFoundError:
        return Memory(), None
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Memory(), f"{path} could not be read ({error}): a new conversation begins."


def save(folder: Path, memory: Memory) -> None:
    """Write it in one step: a crash leaves the old file or the new one.

    Raises:
        Unavailable: it cannot be written.
    """
    path = folder / FILE
    told = {"session": memory.session, "seen": list(memory.seen)}
    try:
        write_whole(path, json.dumps(told).encode())
    except OSError as error:
        raise Unavailable(
            f"Cannot write {path}: {error.strerror}.",
            remedy="Make room on the disk, or check the directory.",
        ) from error
