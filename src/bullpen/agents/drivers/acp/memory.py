"""Which conversation of a program is an agent's, and which mail is in it: outlives the process."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from bullpen.agents.drivers.kept import remember, write_whole
from bullpen.errors import Unavailable

FILE = "acp.json"


@dataclass(slots=True)
class Memory:
    """The session of one agent. `introduced` says that the program was told who it is."""

    session: str | None = None
    introduced: bool = False
    # The messages that were in a request which succeeded, the oldest first.
    seen: dict[str, None] = field(default_factory=dict)
    # What the session has cost so far, as the program said last.
    cost_usd: float = 0.0
    # When a program opened it last, by the clock on the wall.
    opened_at: float = 0.0

    def saw(self, ids: tuple[str, ...]) -> None:
        """Remember messages; the oldest are forgotten, whose mail is long settled."""
        remember(self.seen, ids)

    def forget(self) -> None:
        """The session is gone, and everything that was said in it."""
        self.session, self.introduced, self.cost_usd = None, False, 0.0
        self.seen.clear()


def load(folder: Path) -> tuple[Memory, str | None]:
    """The memory of an agent, and what was wrong with the file if it could not be read."""
    path = folder / FILE
    try:
        told = json.loads(path.read_bytes())
        return (
            Memory(
                session=told["session"],
                introduced=bool(told["introduced"]),
                seen=dict.fromkeys(map(str, told["seen"])),
                cost_usd=float(told["cost_usd"]),
                opened_at=float(told["opened_at"]),
            ),
            None,
        )
    except FileNotFoundError:
        return Memory(), None
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Memory(), f"{path} could not be read ({error}): a new conversation begins."


def save(folder: Path, memory: Memory) -> None:
    """Write it in one step: a crash leaves the old file or the new one."""
    path = folder / FILE
    text = json.dumps(
        {
            "session": memory.session,
            "introduced": memory.introduced,
            "seen": list(memory.seen),
            "cost_usd": memory.cost_usd,
            "opened_at": memory.opened_at,
        }
    )
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise Unavailable(
            f"Cannot write {path}: {error.strerror}.",
            remedy="Make room on the disk, or check the directory.",
        ) from error
