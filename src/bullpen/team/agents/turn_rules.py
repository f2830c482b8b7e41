"""Ends a turn whose model repeats itself or makes too many requests. Pure.

The model is told first. A call that changes something for the first time in the turn makes earlier
calls worth repeating, so counting starts again: checks may run after every edit. Calls that wait
for others do not count, and a call that is made twice in one answer counts once.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from bullpen.team.tasks.stall_rules import steady

SAME_TOLD = 3
SAME_MAX = 6
"""How often the same call may have the same result, and from when the model is told."""

NOTHING_NEW_TOLD = 3
NOTHING_NEW_MAX = 7
"""How many answers in a row may bring nothing new, and from when the model is told."""

_SHOWN_CHARS = 200

_REASON = re.compile(r"\(reason: (\w+)\)")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\d+")
# Their texts list every wrong field, so a model that guesses names gets another one each time.
_BAD_INPUT = re.compile(r"Invalid input for [^:]*")

Brake = Literal["repeats", "requests"]
"""Why a turn is ended. Both are a `Failure`."""


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call that a model made, and its result.

    `is_command`: the call runs a command, whose failure says nothing about other commands.
    """

    tool: str
    # Identifies the tool and the input.
    digest: str
    text: str
    failed: bool = False
    changes: bool = False
    waits: bool = False
    is_command: bool = False

    @property
    def outcome(self) -> str:
        """Return what identifies the call together with its result."""
        said = f"{self.digest}\0{self.failed}\0{steady(self.text)}"
        return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()

    @property
    def refusal(self) -> str | None:
        """Return why it failed, without what differs between two inputs; None if it did not."""
        if not self.failed:
            return None
        reason = _REASON.search(self.text)
        if reason is not None:
            return f"{self.tool} {reason[1]}"
        if self.is_command:
            return None
        bad_input = _BAD_INPUT.match(self.text)
        first = self.text.partition("\n")[0].partition(". ")[0]
        return _QUOTED.sub("", bad_input[0] if bad_input else first)

    @property
    def shown(self) -> str:
        """Return its result as a person or a model is reminded of it."""
        line = " ".join(self.text.split())
        return line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]}…"


@dataclass(frozen=True, slots=True)
class Stopped:
    """The end of a turn: the cause, what happened, and what to do."""

    cause: Brake
    words: str
    remedy: str

    @property
    def sentence(self) -> str:
        """Return what people and models read."""
        return f"The turn was ended ({self.cause}): {self.words.rstrip('.')}."


class TurnCalls:
    """The requests and calls of one turn, and whether it has to end."""

    def __init__(self, requests_max: float) -> None:
        self.stopped: Stopped | None = None
        self._requests_max = requests_max
        self._requests = 0
        # What calls led to in this turn, and how often since something changed.
        self._ever: set[str] = set()
        self._same = Counter[str]()
        self._refusals: set[str] = set()
        # What the calls of the last answer led to, and whether any of that was new.
        self._in_answer: set[str] = set()
        self._is_new = False
        self._nothing_new = 0
        self._last: MadeCall | None = None

    def asks(self) -> None:
        """Note that the model is asked: what it calls until the next time is one answer."""
        self._close()
        self._requests += 1
        if self.stopped is None and self._requests > self._requests_max:
            self.stopped = Stopped(
                "requests",
                f"it made {self._requests_max:g} model requests, the most that a turn may make",
                "A person can raise the limit: bullpen team limits --requests N",
            )

    def answered(self, call: MadeCall) -> str | None:
        """Note a call with its result. Returns what to tell the model about it, if anything."""
        if call.waits or call.outcome in self._in_answer:
            return None
        self._in_answer.add(call.outcome)
        is_known = call.outcome in self._ever
        self._ever.add(call.outcome)
        if call.changes and not call.failed and not is_known:
            self._same.clear()
            self._refusals.clear()
        self._same[call.outcome] += 1
        refusal = call.refusal
        # A change that was made before is never new: it may be made back and forth.
        again = is_known and call.changes and not call.is_command
        is_first = self._same[call.outcome] == 1 and not again
        self._is_new |= is_first and refusal not in self._refusals
        if refusal is not None:
            self._refusals.add(refusal)
        self._last = call
        if self._same[call.outcome] >= SAME_MAX:
            self._stop(f"it called {call.tool} {SAME_MAX} times with the same input and result")
        if not self._requests:
            # Its driver does not say what one answer is, so each call counts as one.
            self._close()
        return self._told(call)

    def _close(self) -> None:
        """Count the last answer."""
        if self._in_answer:
            self._nothing_new = 0 if self._is_new else self._nothing_new + 1
        if self._nothing_new >= NOTHING_NEW_MAX:
            self._stop(
                f"its last {self._nothing_new} answers brought nothing new, only calls and refusals"
                " that it had had before"
            )
        self._in_answer.clear()
        self._is_new = False

    def _stop(self, words: str) -> None:
        if self.stopped is None and self._last is not None:
            words = f"{words}; the last was {self._last.tool}: {self._last.shown}"
            self.stopped = Stopped("repeats", words, "Do something else, or say what is missing.")

    def _told(self, call: MadeCall) -> str | None:
        same, nothing_new = self._same[call.outcome], self._nothing_new
        if self._in_answer:
            # How many it will be if no other call of this answer brings something new.
            nothing_new = 0 if self._is_new else nothing_new + 1
        if self.stopped is not None:
            return "You repeat yourself. Your turn ends now."
        if same >= SAME_TOLD:
            found = f"You made this call {same} times with the same result."
        elif nothing_new >= NOTHING_NEW_TOLD:
            found = f"Your last {nothing_new} answers brought nothing new."
        else:
            return None
        return f"{found} Do something else, or end your turn and say what is missing."
