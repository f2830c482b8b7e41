"""What members changed, looked up once for all who look at the same page."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio

from bullpen.doors.actions.changes import Changes
from bullpen.errors import BullpenError

CHANGES_S = 3.0
"""How old an answer may be: each costs some runs of git."""

_KEPT_MAX = 50

Look = Callable[[str, str | None], Awaitable[Changes]]


@dataclass(slots=True)
class _Known:
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    at: float = float("-inf")
    changes: Changes | None = None


class ChangesCache:
    """The changes of members and tasks, as of a short while ago."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._known: dict[tuple[str, str | None], _Known] = {}

    async def of(self, member: str, task: str | None) -> Changes:
        """The changes of a member, or of one of its tasks. A failure is told as a note."""
        known = self._known.get((member, task))
        if known is None:
            while len(self._known) >= _KEPT_MAX:
                self._known.pop(next(iter(self._known)))
            known = self._known[member, task] = _Known()
        async with known.lock:
            if known.changes is None or time.monotonic() - known.at >= CHANGES_S:
                try:
                    known.changes = await self._look(member, task)
                except BullpenError as error:
                    known.changes = Changes("", None, (), str(error))
                known.at = time.monotonic()
            return known.changes
