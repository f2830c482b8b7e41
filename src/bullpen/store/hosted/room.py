"""One team in the host process: whose turn it is, what is known of it, what was decided.

A client decides on what it knows, which may be behind what the store holds. So the host looks
again inside a real commit, and lets the client decide again if anything differs that it looked
at. The turn keeps local clients from making each other decide again and again.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bullpen.errors import BullpenError, NotFound, Unavailable
from bullpen.protocol.changes import Change, Deliver, Event, encode
from bullpen.store.base import Committed, Store, View
from bullpen.store.clock import Clock
from bullpen.store.hosted import rights
from bullpen.store.hosted.identities import Identity
from bullpen.store.hosted.known import Known, Reads, lasting
from bullpen.store.hosted.turns import Turns

_STEPS_KEPT = 256
_GAP_MAX = 1_000
"""How many events are followed one by one; past that the team is read anew."""


class _Stale(Exception):
    """The team is not as the client knew it."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a client decided, on what, and what it looked at for that."""

    stamp: str
    seq: int
    reads: Reads
    changes: tuple[Change, ...]
    actor: str
    op: str


@dataclass(frozen=True, slots=True)
class _Step:
    seq: int
    changes: list[dict[str, Any]]


class Room:
    """One team. `busy` keeps the commits of clients that lost their turn apart."""

    def __init__(
        self, store: Store, team: str, *, lease_s: float, wait_s: float, clock: Clock
    ) -> None:
        self._store, self._team = store, team
        self._wait_s, self._clock = wait_s, clock
        self.turns = Turns(lease_s=lease_s)
        self._busy = asyncio.Lock()
        self._known: Known | None = None
        self._steps: deque[_Step] = deque()
        self._steps_from = 0

    @property
    def idle(self) -> bool:
        """Whether nobody needs it at the moment."""
        return self.turns.idle and not self._busy.locked()

    async def begin(self, ticket: str, stamp: str | None, seq: int) -> dict[str, Any]:
        """Wait for the turn; returns what the client lacks of the team.

        Raises:
            Unavailable: others had the turn all the time.
        """
        try:
            async with asyncio.timeout(self._wait_s):
                await self.turns.take(ticket)
        except TimeoutError:
            raise Unavailable(
                f"Team {self._team!r} is busy: others have been deciding for {self._wait_s:g} s.",
                remedy="Try again in a moment.",
            ) from None
        async with self._busy:
            known = self._known or await self._load()
            self.turns.renew(ticket)
            return self._lacking(known, stamp, seq)

    async def settle(self, who: Identity, ticket: str, decision: Decision) -> dict[str, Any]:
        """Make a decision durable, or say on what to decide again."""
        self.turns.keep(ticket)
        again = False
        try:
            async with self._busy:
                answer = await self._settle(who, decision)
            again = "again" in answer
        finally:
            # On a decision that was stale it is still its turn.
            if again:
                self.turns.renew(ticket)
            else:
                self.turns.give_back(ticket)
        return answer

    async def _settle(self, who: Identity, decision: Decision) -> dict[str, Any]:
        known = self._known
        if known is None or (known.stamp, known.seq) != (decision.stamp, decision.seq):
            return await self._again(decision)

        def decide(view: View) -> Sequence[Change]:
            if not known.agrees(view, decision.reads):
                raise _Stale
            rights.check_changes(who, decision.changes, view, now_ms=self._clock())
            return decision.changes

        try:
            committed = await self._store.commit(
                self._team, decide, actor=decision.actor, op=decision.op
            )
        except _Stale:
            await self._catch_up(known)
            return await self._again(decision)
        except NotFound:
            self._known = None
            raise
        await self._follow(known, committed)
        return committed_raw(committed, decision.changes)

    async def _again(self, decision: Decision) -> dict[str, Any]:
        known = self._known or await self._load()
        return {"again": self._lacking(known, decision.stamp, decision.seq)}

    async def find(self, decision: Decision) -> dict[str, Any] | None:
        """Look whether a decision was carried out, though nobody here remembers it."""
        for event in await self._store.events(self._team, after=decision.seq):
            if (event.actor, event.op) == (decision.actor, decision.op) and _is_of(event, decision):
                return committed_raw(Committed(event.seq, event.changes), decision.changes)
        return None

    def forget(self) -> None:
        """Read the team anew before the next decision."""
        self._known = None

    async def _load(self) -> Known:
        """Read the whole team, as a commit sees it."""
        stamp = uuid.uuid4().hex
        seen: list[Known] = []

        def look(view: View) -> Sequence[Change]:
            seen[:] = [Known.seen(view, stamp=stamp)]
            return ()

        committed = await self._store.commit(self._team, look, actor="host", op="look")
        (known,) = seen
        known.number(committed.seq)
        self._known = known
        self._steps.clear()
        self._steps_from = known.seq
        return known

    async def _catch_up(self, known: Known) -> None:
        """Follow the log; what differs though nothing was logged is read anew."""
        events = await self._store.events(self._team, after=known.seq, limit=_GAP_MAX + 1)
        if not self._walk(known, events):
            self._known = None

    async def _follow(self, known: Known, committed: Committed) -> None:
        """Take into account what was committed, and whatever came before it."""
        if not committed.changes:
            return
        if committed.seq == known.seq + 1:
            self._step(known, committed.seq, committed.changes)
            return
        events: list[Event] = []
        if known.seq < committed.seq <= known.seq + _GAP_MAX:
            # The commit is durable, whatever can be read of it now.
            with suppress(BullpenError):
                events = await self._store.events(
                    self._team, after=known.seq, limit=committed.seq - known.seq
                )
        if not self._walk(known, events) or known.seq != committed.seq:
            self._known = None

    def _walk(self, known: Known, events: Sequence[Event]) -> bool:
        """Follow some events. False if they do not lead on from what is known."""
        if not events or len(events) > _GAP_MAX:
            return False
        for event in events:
            if event.seq != known.seq + 1:
                return False
            self._step(known, event.seq, event.changes)
        return True

    def _step(self, known: Known, seq: int, changes: Sequence[Change]) -> None:
        kept = lasting(changes)
        known.advance(seq, kept)
        if not kept:
            return
        self._steps.append(_Step(seq, [encode(change) for change in kept]))
        if len(self._steps) > _STEPS_KEPT:
            self._steps_from = self._steps.popleft().seq

    def _lacking(self, known: Known, stamp: str | None, seq: int) -> dict[str, Any]:
        """What leads from what a client knows to what is known here."""
        if stamp != known.stamp or not self._steps_from <= seq <= known.seq:
            return {"whole": known.raw()}
        changes = [row for step in self._steps if step.seq > seq for row in step.changes]
        return {"seq": known.seq, "changes": changes}


def committed_raw(committed: Committed, sent: Sequence[Change]) -> dict[str, Any]:
    """What was committed; the changes only if they are not all that were sent."""
    if len(committed.changes) == len(sent):
        return {"seq": committed.seq}
    return {"seq": committed.seq, "changes": [encode(change) for change in committed.changes]}


def _is_of(event: Event, decision: Decision) -> bool:
    """Whether an event is a decision carried out, but for what had been delivered before."""
    rest = list(event.changes)
    for change in decision.changes:
        if rest and change == rest[0]:
            rest.pop(0)
        elif not isinstance(change, Deliver):
            return False
    return bool(event.changes) and not rest
