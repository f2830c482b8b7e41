"""One team in the host process: turns, the current state and decisions of the operator.

A client decides on its own copy, which may be outdated. So the host checks again inside a real
commit, and lets the client decide again if anything it read has changed. Turns keep local clients
from making each other decide again and again.
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
from bullpen.store.contract import Committed, Store, View
from bullpen.store.hosted.replica import Reads, Replica, lasting
from bullpen.store.hosted.turns import Turns

_STEPS_KEPT = 256
_GAP_MAX = 1_000
"""How many events are followed one by one; after more, the team is read again."""


class _Stale(Exception):
    """The team has changed since the client's copy."""


@dataclass(frozen=True, slots=True)
class HostDecision:
    """What a client decided, based on which state, and what it read."""

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


class TeamSession:
    """One team. `busy` separates the commits of clients that lost their turn."""

    def __init__(self, store: Store, team: str, *, lease_s: float, wait_s: float) -> None:
        self._store, self._team = store, team
        self._wait_s = wait_s
        self.turns = Turns(lease_s=lease_s)
        self._busy = asyncio.Lock()
        self._known: Replica | None = None
        self._steps: deque[_Step] = deque()
        self._steps_from = 0

    @property
    def idle(self) -> bool:
        """Return whether nobody needs it at the moment."""
        return self.turns.idle and not self._busy.locked()

    async def begin(self, ticket: str, stamp: str | None, seq: int) -> dict[str, Any]:
        """Wait for the turn. Returns what the client lacks of the team. Raises Unavailable."""
        try:
            async with asyncio.timeout(self._wait_s):
                await self.turns.take(ticket)
        except TimeoutError:
            raise Unavailable(
                f"Team {self._team!r} is busy: other clients have been using it for "
                f"{self._wait_s:g} s.",
                remedy="Try again in a moment.",
            ) from None
        async with self._busy:
            known = self._known or await self._load()
            self.turns.renew(ticket)
            return self._lacking(known, stamp, seq)

    async def settle(self, ticket: str, decision: HostDecision) -> dict[str, Any]:
        """Make a decision durable, or return what to decide on again."""
        self.turns.keep(ticket)
        again = False
        try:
            async with self._busy:
                answer = await self._settle(decision)
            again = "again" in answer
        finally:
            # After an outdated decision, it is still this client's turn.
            if again:
                self.turns.renew(ticket)
            else:
                self.turns.give_back(ticket)
        return answer

    async def _settle(self, decision: HostDecision) -> dict[str, Any]:
        known = self._known
        if known is None or (known.stamp, known.seq) != (decision.stamp, decision.seq):
            return await self._again(decision)

        def decide(view: View) -> Sequence[Change]:
            if not known.agrees(view, decision.reads):
                raise _Stale
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

    async def _again(self, decision: HostDecision) -> dict[str, Any]:
        known = self._known or await self._load()
        return {"again": self._lacking(known, decision.stamp, decision.seq)}

    async def find(self, decision: HostDecision) -> dict[str, Any] | None:
        """Look in the log whether a decision was carried out that nobody here remembers."""
        for event in await self._store.events(self._team, after=decision.seq):
            if (event.actor, event.op) == (decision.actor, decision.op) and is_of(
                event, decision.changes
            ):
                return committed_raw(Committed(event.seq, event.changes), decision.changes)
        return None

    def forget(self) -> None:
        """Read the team again before the next decision."""
        self._known = None

    async def _load(self) -> Replica:
        """Read the whole team, as a commit sees it."""
        stamp = uuid.uuid4().hex
        seen: list[Replica] = []

        def look(view: View) -> Sequence[Change]:
            seen[:] = [Replica.seen(view, stamp=stamp)]
            return ()

        committed = await self._store.commit(self._team, look, actor="host", op="look")
        (known,) = seen
        known.folded.seq = committed.seq
        self._known = known
        self._steps.clear()
        self._steps_from = known.seq
        return known

    async def _catch_up(self, known: Replica) -> None:
        """Follow the log; read again what changed without an event."""
        events = await self._store.events(self._team, after=known.seq, limit=_GAP_MAX + 1)
        if not self._walk(known, events):
            self._known = None

    async def _follow(self, known: Replica, committed: Committed) -> None:
        """Apply what was committed, and whatever came before it."""
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

    def _walk(self, known: Replica, events: Sequence[Event]) -> bool:
        """Follow some events. False if they do not continue the known state."""
        if not events or len(events) > _GAP_MAX:
            return False
        for event in events:
            if event.seq != known.seq + 1:
                return False
            self._step(known, event.seq, event.changes)
        return True

    def _step(self, known: Replica, seq: int, changes: Sequence[Change]) -> None:
        kept = lasting(changes)
        known.advance(seq, kept)
        if not kept:
            return
        self._steps.append(_Step(seq, [encode(change) for change in kept]))
        if len(self._steps) > _STEPS_KEPT:
            self._steps_from = self._steps.popleft().seq

    def _lacking(self, known: Replica, stamp: str | None, seq: int) -> dict[str, Any]:
        """Return what leads from a client's copy to the current state."""
        if stamp != known.stamp or not self._steps_from <= seq <= known.seq:
            return {"whole": known.raw()}
        changes = [row for step in self._steps if step.seq > seq for row in step.changes]
        return {"seq": known.seq, "changes": changes}


def committed_raw(committed: Committed, sent: Sequence[Change]) -> dict[str, Any]:
    """Return what was committed; the changes only if they differ from those sent."""
    if len(committed.changes) == len(sent):
        return {"seq": committed.seq}
    return {"seq": committed.seq, "changes": [encode(change) for change in committed.changes]}


def is_of(event: Event, changes: Sequence[Change]) -> bool:
    """Return whether an event has these changes, apart from messages already delivered."""
    rest = list(event.changes)
    for change in changes:
        if rest and change == rest[0]:
            rest.pop(0)
        elif not isinstance(change, Deliver):
            return False
    return bool(event.changes) and not rest
