"""The brake of an agent's turns: drivers report requests and calls, and the rule judges them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from bullpen.agents.contracts.call import Call
from bullpen.agents.contracts.driver import TurnFailed
from bullpen.team.agents.turn_rules import MadeCall, TurnCalls

_WAITING = frozenset(["BashOutput", "TaskGet", "TaskList", "TeamStatus"])
"""The tools that look at what others do, so that the same answer may come for a long time."""

_SLEEPS = re.compile(r"\bsleep\b")


class TurnBrake:
    """The brake of one agent's turns. `end_turn` makes the turn end soon, whatever the driver."""

    def __init__(self, end_turn: Callable[[], object]) -> None:
        self._end_turn = end_turn
        self._calls = TurnCalls(math.inf)

    def turn_begins(self, requests_max: float = math.inf) -> None:
        """Forget the turn before."""
        self._calls = TurnCalls(requests_max)

    @property
    def stopped(self) -> TurnFailed | None:
        """The failure of a turn that had to be ended."""
        found = self._calls.stopped
        if found is None:
            return None
        return TurnFailed(found.sentence, remedy=found.remedy, failure=found.cause)

    def next_request(self) -> None:
        """Count a request. Raises TurnFailed if the turn must end."""
        self._calls.asks()
        failed = self.stopped
        if failed is not None:
            raise failed

    def note_repeats(self, call: Call, text: str, *, failed: bool) -> str:
        """Count a call; returns its result with what the model is told about repeating it."""
        found = MadeCall(
            call.tool,
            call.digest,
            text,
            failed=failed,
            changes=call.kind != "read",
            waits=_waits(call, failed=failed),
            is_command=call.kind == "run",
        )
        told = self._calls.answered(found)
        if self._calls.stopped is not None:
            self._end_turn()
        return text if told is None else f"{text}\n\n{told}"


def _waits(call: Call, *, failed: bool) -> bool:
    if call.kind == "run":
        return _SLEEPS.search(str(call.input.get("command"))) is not None
    return call.tool in _WAITING and not failed
