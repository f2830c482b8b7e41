"""Stop Claude Code when it works without a turn, and book what it used."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio

from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.desk import Desk
from bullpen.agents.drivers.outside_turns import OutsideTurns
from bullpen.errors import BullpenError
from bullpen.protocol.agent import Usage

_LOOK_S = 0.05
# How long the transcript may take to show a request that was made without a turn.
_WRITTEN_S = 1.0


class OutsideWatch:
    """Watches the program between its turns.

    `requests` reports what is in the program's transcript by now, and returns the number of all
    requests so far. `stop` stops the program. `last_usage` is that of the last known request.
    """

    def __init__(
        self,
        desk: Desk,
        *,
        requests: Callable[[], int],
        stop: Callable[[], Awaitable[None]],
        last_usage: Callable[[], Usage],
    ) -> None:
        self._desk = desk
        self._requests = requests
        self._stop = stop
        self._last_usage = last_usage
        self._turns = OutsideTurns("Claude Code")
        self._stopping: asyncio.Task[None] | None = None
        self._known = 0

    def begin(self, requests: int) -> None:
        """Watch from now on: a turn ended with so many requests so far."""
        self._known = requests

    def worked(self, call: Call | None) -> None:
        """Stop the program: it wants to make a call, or had an answer of its model."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop_and_book(call))

    async def stopped(self) -> bool:
        """Wait until the program is stopped, if it worked; false if it did not."""
        if self._stopping is None:
            return False
        await asyncio.wait({self._stopping})
        return True

    async def settle(self) -> None:
        """Before a turn: raises TurnFailed if the program worked without a turn too often."""
        if await self.stopped():
            self._stopping = None
            self._turns.another()
        else:
            self._turns.none()

    def told(self, text: str) -> str:
        """The text of a turn, after what the model has to know about the time before it."""
        return "\n\n".join([*self._turns.notice(), text])

    async def _stop_and_book(self, call: Call | None) -> None:
        desk = self._desk
        did = "" if call is None else f" It asked for {call}."
        with anyio.move_on_after(_WRITTEN_S):
            # It waits for the answer of its hook meanwhile.
            while self._requests() == self._known:  # noqa: ASYNC110 - a file grows
                await anyio.sleep(_LOOK_S)
        try:
            await self._stop()
        except BullpenError as error:
            did += f" It could not be stopped: {error}"
        is_estimate = self._requests() == self._known
        if is_estimate:
            desk.used(self._last_usage())
        desk.record(
            "trouble",
            text=f"Claude Code worked although no turn was running, and was stopped.{did}",
            estimated=is_estimate,
        )
        try:
            await desk.may_spend()
        except BullpenError as error:
            # The next turn is refused for the same reason.
            desk.record("trouble", text=str(error))
