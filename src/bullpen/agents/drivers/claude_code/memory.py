"""What Claude Code's conversation is called, and which mail is in it: kept across processes."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from bullpen.errors import Unavailable

FILE = "claude-code.json"

_IDS_KEPT = 5_000


@dataclass(slots=True)
class Memory:
    """The session of one agent, and the messages that were in a request which succeeded."""

    session: str = field(default_factory=lambda: str(uuid.uuid4()))
    seen: dict[str, None] = field(default_factory=dict)

    def saw(self, ids: tuple[str, ...]) -> None:
        """Remember messages; the oldest are forgotten, whose mail is long settled."""
        self.seen.update(dict.fromkeys(ids))
        for known in list(self.seen)[:-_IDS_KEPT]:
            del self.seen[known]


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
    path, beside = folder / FILE, folder / f".{FILE}.{os.getpid()}"
    told = {"session": memory.session, "seen": list(memory.seen)}
    try:
        with open(beside, "w", encoding="utf-8") as out:
            json.dump(told, out)
            out.flush()
            os.fsync(out.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise Unavailable(
            f"Cannot write {path}: {error.strerror}.",
            remedy="Make room on the disk, or check the directory.",
        ) from error
