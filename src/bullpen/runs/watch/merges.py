"""Runs a team's merge queue while the team is watched: one step whenever something waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing

import anyio

from bullpen.errors import BullpenError, Refused
from bullpen.protocol.team import MergeSettings
from bullpen.runs.watch.ending import QueueState
from bullpen.team.team import Team
from bullpen.workspace.merge_queue.queue import Stepped

_LOOK_S = 5.0
_PAUSE_S = 2.0
_PAUSE_MAX_S = 60.0

_FOR_GOOD = ("no_target", "path_taken")
"""Refusals that only a person can resolve."""

Step = Callable[[MergeSettings], Awaitable[Stepped | None]]


class Merging:
    """Takes the steps of a merge queue, and remembers why it is blocked, if it is."""

    name = "merge queue"

    def __init__(
        self,
        team: Team,
        step: Step,
        *,
        quiet: Callable[[], bool],
        returned: Callable[[], None] | None = None,
    ) -> None:
        """`returned` is called when work was returned to its owner."""
        self._team = team
        self._step = step
        self._quiet = quiet
        self._returned = returned
        self._state = QueueState()

    def state(self) -> QueueState:
        """Return why the queue is blocked, if it is."""
        return self._state

    async def run(self, tell: Callable[[str], None]) -> None:
        """Take steps until cancelled; a blocked merge is tried again after growing pauses."""
        pause_s = _PAUSE_S
        while True:
            moved = False
            if not self._quiet():
                before = self._state.trouble
                moved = await self._stepped(tell)
                if self._state.trouble not in (None, before):
                    tell(f"merging waits: {self._state.trouble}")
            if not moved and self._state.trouble is not None:
                await anyio.sleep(pause_s)
                pause_s = min(pause_s * 2, _PAUSE_MAX_S)
                continue
            pause_s = _PAUSE_S
            if not moved:
                await self._until_something_changes()

    async def _stepped(self, tell: Callable[[str], None]) -> bool:
        """Take a step. Returns whether it merged or returned anything."""
        settings = await self._team.merges.settings()
        if settings is None:
            return False
        try:
            stepped = await self._step(settings)
        except BullpenError as error:
            for_good = isinstance(error, Refused) and error.reason in _FOR_GOOD
            self._set_trouble(str(error), for_good=for_good)
            return False
        except Exception as error:
            # Whatever it is: the agents work on, and the run does not wait for it forever.
            self._set_trouble(f"the merge queue stopped because of a bug in Bullpen: {error!r}")
            return False
        self._set_trouble(None if stepped is None else stepped.held)
        if stepped is None:
            return False
        if stepped.trouble is not None:
            tell(stepped.trouble)
        if stepped.returned and self._returned is not None:
            self._returned()
        return bool(stepped.merged or stepped.returned)

    def _set_trouble(self, why: str | None, *, for_good: bool = False) -> None:
        is_new = why is not None and self._state.trouble is None
        since_s = anyio.current_time() if is_new else self._state.since_s
        self._state = QueueState(why, since_s, for_good)

    async def _until_something_changes(self) -> None:
        with anyio.move_on_after(_LOOK_S):
            async with aclosing(self._team.changes()) as changes:
                await anext(changes)
                await anext(changes)
