"""Mail in a replay: each request gets the messages that it had on the tape, however they race.

A message that came earlier than on the tape waits; one that is late is waited for. What is not on
the tape at all is given at once, so that the request differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import anyio

from bullpen.agents.contracts.desk import Desk, Mail
from bullpen.agents.tapes.agent_tape import MAIN, AgentTape
from bullpen.agents.tapes.format import TapedCall
from bullpen.agents.tapes.requests import Piece, kept, pieces_of, together

_LATE_S = 60.0
"""How long a replay waits for a message that the tape has."""

_OTHER_S = 3.0
"""The same when there is one that the tape has not: it may be in its place."""

_LOOK_EVERY_S = 0.05


@dataclass(slots=True)
class _Batch:
    """Messages that came together. They count as seen when the last of them was sent."""

    ids: tuple[str, ...]
    left: list[Piece]
    sent: list[str] = field(default_factory=list)


class Arrivals:
    """The mail of one agent in a replay."""

    def __init__(self, tape: AgentTape) -> None:
        self._tape = tape
        self._batches: list[_Batch] = []
        # Messages that were sent and are given again with others that were not.
        self._again = Counter[str]()

    async def first(self, given: Mail, desk: Desk) -> Mail:
        """What the first request of a turn gets. Raises TurnFailed."""
        call = self._tape.expected(MAIN)
        if call is None:
            return given
        return await self._gathered(call, given, desk) or given

    async def next(self, desk: Desk, *, ended: bool) -> Mail | None:
        """What the next request of a turn gets, or None. `ended`: the model called no tools.

        Raises TurnFailed.
        """
        call = self._tape.expected(MAIN)
        if call is None or (ended and call.begins):
            if ended:
                self._turn_over()
                # Whatever is not on the tape must show.
                return await desk.take_mail() if call is None else None
            return await desk.take_mail()
        return await self._gathered(call, None, desk)

    async def _gathered(self, call: TapedCall, given: Mail | None, desk: Desk) -> Mail | None:
        await self._tape.due(call)
        taken = () if given is None else self._taken(given)
        fixed = [piece for piece in taken if not piece.arrives]
        wanted = Counter(piece.text for piece in call.asked.pieces if self._is_mail(piece, call))
        found: list[Piece] = []
        found += self._matching(wanted)
        began = anyio.current_time()
        deadline = began + _LATE_S
        while wanted and anyio.current_time() < deadline:
            more = await desk.take_mail()
            if more is None:
                await anyio.sleep(_LOOK_EVERY_S)
                if any(self._strangers()):
                    deadline = min(deadline, began + _OTHER_S)
                continue
            fixed += [piece for piece in self._taken(more) if not piece.arrives]
            found += self._matching(wanted)
            wanted -= Counter(self._normal(piece) for piece in fixed)
        found += self._unknown()
        ids = tuple(self._seen())
        if not fixed and not found:
            return None
        return Mail(together([*fixed, *found]), ids)

    def _is_mail(self, piece: Piece, call: TapedCall) -> bool:
        # What else a turn begins with comes with it.
        return piece.arrives or (piece.kind == "text" and not call.begins)

    def _taken(self, mail: Mail) -> list[Piece]:
        """The parts of new mail, of which its messages wait until they are due."""
        pieces = pieces_of(mail.text)
        arrived: list[Piece] = []
        for piece in pieces:
            if piece.arrives and self._again[self._normal(piece)] > 0:
                self._again[self._normal(piece)] -= 1
            elif piece.arrives:
                arrived.append(piece)
        self._batches.append(_Batch(mail.ids, arrived))
        return pieces

    def _matching(self, wanted: Counter[str]) -> Iterator[Piece]:
        """Those of the messages here that are wanted."""
        for batch in self._batches:
            for piece in list(batch.left):
                text = self._normal(piece)
                if wanted[text] > 0:
                    wanted[text] -= 1
                    yield self._sent(batch, piece)
        wanted += Counter()

    def _unknown(self) -> Iterator[Piece]:
        """Those of the messages here that the tape has not."""
        for batch, piece in list(self._strangers()):
            yield self._sent(batch, piece)

    def _strangers(self) -> Iterator[tuple[_Batch, Piece]]:
        for batch in self._batches:
            for piece in batch.left:
                if not self._tape.comes_later(self._normal(piece)):
                    yield batch, piece

    def _sent(self, batch: _Batch, piece: Piece) -> Piece:
        batch.left.remove(piece)
        batch.sent.append(self._normal(piece))
        return piece

    def _seen(self) -> Iterator[str]:
        """The ids of the messages that are all sent now."""
        for batch in list(self._batches):
            if not batch.left:
                self._batches.remove(batch)
                yield from batch.ids

    def _turn_over(self) -> None:
        """What was not sent is given again in the next turn, with all that came with it."""
        for batch in self._batches:
            self._again.update(batch.sent)
        self._batches.clear()

    def _normal(self, piece: Piece) -> str:
        tape = self._tape
        return kept(Piece(piece.kind, tape.places.normal(tape.redacted(piece.text)))).text
