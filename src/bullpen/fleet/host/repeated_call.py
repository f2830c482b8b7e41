"""Finds out whether a call that an agent repeats was done by the host process before this one.

While a host process runs, it remembers the results of its calls. After a restart only the team's
log knows: the same call, at the same time and with the same ids, makes the same changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bullpen.errors import BullpenError
from bullpen.protocol.changes import Change
from bullpen.protocol.clock import ms_of
from bullpen.protocol.message import Message
from bullpen.store.contract import Committed, Decide, Mark, Store, Stored
from bullpen.store.events.fold import apply, raw_of
from bullpen.store.events.records import TeamRecords
from bullpen.store.hosted.team_session import is_of

_EARLIER_MS = 5_000
"""How much earlier than the call its event may seem to be, if the clocks differ."""


class NotDone(Exception):
    """The log has no event of the call."""


class SearchedLog:
    """A store that writes nothing: a commit is found in the log, or was not done."""

    def __init__(self, store: Store, at_ms: int) -> None:
        self._inner = store
        self._at_ms = at_ms

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def commit(self, team: str, decide: Decide, *, actor: str, op: str) -> Committed:
        """Return the commit of the log that these changes made. Raises NotDone."""
        records = TeamRecords()
        for event in await self._inner.events(team):
            began = ms_of(event.time) or 0
            if (event.actor, event.op) == (actor, op) and began >= self._at_ms - _EARLIER_MS:
                changes = _decided(decide, records)
                if changes and is_of(event, changes):
                    return Committed(event.seq, event.changes)
            apply(records.folded, event, keep=raw_of)
            records.follow(event.changes)
        raise NotDone

    async def append(
        self, team: str, to: str, message: Message, *, actor: str, fresh: bool = False
    ) -> Stored:
        """Leave it to `RepeatedStore`, which finds the message by its id."""
        raise NotDone

    async def acknowledge(
        self, team: str, agent: str, ids: Sequence[str], state: Mark, *, actor: str
    ) -> int:
        """Leave it to the store: a state never goes back."""
        raise NotDone


class RepeatedStore:
    """A store for a call that may have been done in part: no message is stored twice."""

    def __init__(self, store: Store) -> None:
        self._inner = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def append(
        self, team: str, to: str, message: Message, *, actor: str, fresh: bool = False
    ) -> Stored:
        """Add a message unless it is there. With a fresh id, only this call can have added it."""
        stored = await self._inner.append(team, to, message, actor=actor)
        return replace(stored, duplicate=stored.duplicate and not fresh)


def _decided(decide: Decide, records: TeamRecords) -> Sequence[Change]:
    try:
        return decide(records)
    except (BullpenError, ValueError):
        return ()
