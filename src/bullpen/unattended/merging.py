"""The merge queue of a team as long as it is pursued: a step whenever something waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing

import anyio

from bullpen.errors import BullpenError, Refused
from bullpen.protocol.merge import MergeSettings
from bullpen.team.team import Team
from bullpen.unattended.ending import QueueState
from bullpen.workspace.queue.running import Stepped

_LOOK_S = 5.0
_PAUSE_S = 2.0
_PAUSE_MAX_S = 60.0

_FOR_GOOD = ("no_target", "path_taken")
"""Refusals that nothing but a person can end."""

Step = Callable[[MergeSettings], Awaitable[Stepped | None]]


class Merging:
    """Takes the steps of the queue, and knows why it stands still if it does."""

    name = "merge queue"

    def __init__(
        self,
        team: Team,
        step: Step,
        *,
        quiet: Callable[[], bool],
        returned: Callable[[], None] | None = None,
    ) -> None:
        """`returned` is called when work went back to its owner."""
        self._team = team
        self._step = step
        self._quiet = quiet
        self._returned = returned
        self._trouble: str | None = None
        self._since_s = 0.0
        self._for_good = False

    def state(self) -> QueueState:
        """Why it stands still, if it does."""
        return QueueState(self._trouble, self._since_s, self._for_good)

    async def run(self, tell: Callable[[str], None]) -> None:
        """Take steps until cancelled; what is in the way is tried again after growing pauses."""
        pause_s = _PAUSE_S
        while True:
            moved = False
            if not self._quiet():
                before = self._trouble
                moved = await self._stepped(tell)
                if self._trouble is not None and self._trouble != before:
                    tell(f"merging waits: {self._trouble}")
            if moved:
                pause_s = _PAUSE_S
            elif self._trouble is not None:
                await anyio.sleep(pause_s)
                pause_s = min(pause_s * 2, _PAUSE_MAX_S)
            else:
                pause_s = _PAUSE_S
                await self._until_something_changes()

    async def _stepped(self, tell: Callable[[str], None]) -> bool:
        """Take a step; whether anything came of it."""
        settings = await self._team.merges.settings()
        if settings is None:
            return False
        try:
            stepped = await self._step(settings)
        except BullpenError as error:
            for_good = isinstance(error, Refused) and error.reason in _FOR_GOOD
            self._stands_still(str(error), for_good=for_good)
            return False
        except Exception as error:
            # Whatever it is: the others work on, and the team does not wait for it for ever.
            self._stands_still(f"the queue broke off, which is a fault of ours: {error!r}")
            return False
        if stepped is None:
            self._trouble = None
            return False
        if stepped.trouble is not None:
            tell(stepped.trouble)
        if stepped.held is not None:
            self._stands_still(stepped.held)
        else:
            self._trouble = None
        if stepped.returned and self._returned is not None:
            self._returned()
        return bool(stepped.merged or stepped.returned)

    def _stands_still(self, why: str, *, for_good: bool = False) -> None:
        if self._trouble is None:
            self._since_s = anyio.current_time()
        self._trouble, self._for_good = why, for_good

    async def _until_something_changes(self) -> None:
        with anyio.move_on_after(_LOOK_S):
            async with aclosing(self._team.changes()) as changes:
                await anext(changes)
                await anext(changes)
