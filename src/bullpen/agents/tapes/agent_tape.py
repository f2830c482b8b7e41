"""The tape of one agent: what its driver records, or answers its requests from."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import anyio

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnFailed
from bullpen.agents.system.secrets import redactor_of
from bullpen.agents.tapes.departures import Departure, departure_line
from bullpen.agents.tapes.files import TapeFile, read_tape
from bullpen.agents.tapes.follower import Follower
from bullpen.agents.tapes.format import READY, Tape, TapedCall, call_line, key
from bullpen.agents.tapes.requests import Asked, Difference, difference
from bullpen.agents.tapes.setting import TapeSetting
from bullpen.errors import Unavailable
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.clock import now_ms

MAIN = "main"
"""The stream of an agent's own conversation."""

QUIET_MAX_S = 120.0
"""How long a replay waits for other agents while none of them makes progress."""

_LOOK_EVERY_S = 0.02


class AgentTape:
    """Records the calls of one agent, or replays them."""

    def __init__(
        self, setting: TapeSetting, agent: str, team: str, redacted: Callable[[str], str]
    ) -> None:
        """Open the tape of the run. Raises Unavailable, NotFound or Invalid."""
        self.agent = agent
        self.places = setting.places(team)
        self.redacted = redacted
        self._begun_ms = setting.begun_ms
        self._file = TapeFile(setting)
        replayed = None if setting.replay is None else read_tape(Path(setting.replay))
        # An earlier version may have left something in it that changes by nature.
        self._replayed = None if replayed is None else replayed.changed(self.places.normal)
        self._follower = Follower(self._file)
        self._last: dict[str, Asked] = {}
        self._begins = False
        self._streams = Counter[str]()
        # An agent that was started again goes on where it was.
        found = self._file.tape().calls
        self._numbers = Counter(call.stream for call in found if call.agent == agent)
        self._streams.update(stream.partition("-")[0] for stream in self._numbers if "-" in stream)

    @property
    def is_replay(self) -> bool:
        """Whether the answers come from a tape."""
        return self._replayed is not None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def turn_begins(self) -> None:
        """The next call is the first of a turn."""
        self._begins = True

    def stream(self, kind: str) -> str:
        """A name for another conversation of this agent, such as a subagent's."""
        self._streams[kind] += 1
        return f"{kind}-{self._streams[kind]}"

    def now(self) -> int:
        """Milliseconds since the run began."""
        return max(now_ms() - self._begun_ms, 0)

    def expected(self, stream: str) -> TapedCall | None:
        """The next call of a stream on the tape that is replayed; None if there is none."""
        tape = self._tape
        return tape.call(self.agent, stream, self._numbers[stream] + 1)

    def comes_later(self, text: str, stream: str = MAIN) -> bool:
        """Whether a message is in a later call of the tape than the next one."""
        number = self._numbers[stream] + 1
        return any(
            piece.text == text
            for call in self._tape.calls
            if (call.agent, call.stream) == (self.agent, stream) and call.number > number
            for piece in call.asked.pieces
        )

    async def due(self, call: TapedCall, *, answer: bool = False) -> None:
        """Wait for what was before a call on the tape, or before its answer. Raises TurnFailed."""
        at_ms = call.answered_ms if answer else call.asked_ms
        before = self._tape.before(at_ms) - {key(call)}
        quiet_since, seen = anyio.current_time(), -1
        while missing := before - self._follower.look().answered:
            now, count = anyio.current_time(), len(before) - len(missing)
            if count != seen:
                quiet_since, seen = now, count
            if now - quiet_since > QUIET_MAX_S:
                agent, stream, number = min(missing, key=lambda each: each[2])
                what = f"{agent} was ready" if stream == READY else f"call {number} of {agent} was"
                lines = (f"- {what} before this one", "+ it did not come")
                self.depart(call.stream, Difference("order of the calls", lines))
            await anyio.sleep(_LOOK_EVERY_S)

    def compare(self, stream: str, asked: Asked) -> TapedCall:
        """The call of the tape for this request. Raises TurnFailed if the tape has another one."""
        call = self.expected(stream)
        if call is None:
            last = f"- the tape ends after {self._numbers[stream]} calls"
            new = "\n".join(piece.text for piece in asked.pieces).strip().splitlines()
            self.depart(
                stream, Difference("number of calls", (last, *(f"+ {line}" for line in new[:8])))
            )
        found = difference(call.asked, asked, alone=len(self._tape.agents) == 1)
        if found is not None:
            self.depart(stream, found)
        return call

    def depart(self, stream: str, found: Difference) -> NoReturn:
        """Write down where the run leaves the tape, and end the turn. Raises TurnFailed."""
        left = Departure(self.agent, stream, self._numbers[stream] + 1, found.what, found.lines)
        self._file.append(departure_line(left))
        raise TurnFailed(left.sentence, remedy="See what bullpen replay shows.", for_good=True)

    def add(
        self,
        stream: str,
        asked: Asked,
        *,
        model: str,
        window: int,
        asked_ms: int,
        said: Mapping[str, Any] | None = None,
        failed: Mapping[str, str] | None = None,
    ) -> None:
        """Write a call down. Raises Unavailable."""
        call = TapedCall(
            self.agent,
            stream,
            self._numbers[stream] + 1,
            asked,
            model=model,
            window=window,
            asked_ms=asked_ms,
            answered_ms=max(self.now(), asked_ms),
            begins=self._begins and stream == MAIN,
            said=said,
            failed=failed,
        )
        self._file.append(call_line(call, self._last.get(stream)))
        self._numbers[stream] += 1
        self._last[stream] = asked
        if stream == MAIN:
            self._begins = False

    @property
    def _tape(self) -> Tape:
        if self._replayed is None:
            raise Unavailable("No tape is replayed.", remedy="Use bullpen replay TAPE.")
        return self._replayed


def tape_of(spec: AgentSpec, env: Mapping[str, str], desk: Desk) -> AgentTape | None:
    """The tape of an agent; None if it has none. Raises Unavailable.

    A run that is resumed after its tape was moved goes on without one.
    """
    setting = TapeSetting.of(spec.options)
    if setting is None:
        return None
    if setting.replay is None and not os.path.lexists(setting.record):
        desk.record("trouble", text=f"The tape {setting.record} is gone: nothing is recorded.")
        return None
    redactor = redactor_of(env)
    return AgentTape(
        setting, desk.agent, desk.team.name, lambda text: desk.redacted(redactor.text(text))
    )
