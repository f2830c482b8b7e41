"""One team: the parts of it, and what it looks like."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from bullpen.protocol.changes import Event
from bullpen.store.base import Store
from bullpen.store.clock import Clock, now_ms
from bullpen.team.agents import Agents
from bullpen.team.approvals import Approvals
from bullpen.team.ids import NewId, new_id
from bullpen.team.mailbox import Mailboxes
from bullpen.team.merges import Merges
from bullpen.team.origins import Origins
from bullpen.team.plans import Plans
from bullpen.team.roster import Roster
from bullpen.team.snapshot import Snapshot, take
from bullpen.team.tasks import Tasks

_LOOK_EVERY_S = 2.0
"""How soon it shows that a heartbeat is overdue."""


class Team:
    """One team of a store. Making one reads nothing; a team that is not there is NotFound later."""

    def __init__(
        self, store: Store, name: str, *, clock: Clock = now_ms, new_id: NewId = new_id
    ) -> None:
        self.name = name
        self.roster = Roster(store, name, clock=clock)
        self.mailbox = Mailboxes(store, name, clock=clock, new_id=new_id)
        self.tasks = Tasks(store, name, clock=clock, new_id=new_id)
        self.approvals = Approvals(store, name, clock=clock, new_id=new_id)
        self.agents = Agents(store, name, clock=clock, new_id=new_id)
        self.merges = Merges(store, name, clock=clock, new_id=new_id)
        self.origins = Origins(store, name, clock=clock, new_id=new_id)
        self.plans = Plans(store, name, clock=clock, new_id=new_id)
        self._store = store
        self._clock = clock

    async def snapshot(self) -> Snapshot:
        """The team as it is now."""
        return await take(self._store, self.name, now_ms=self._clock())

    async def snapshots(self) -> AsyncGenerator[Snapshot, None]:
        """The team as it is now, and again after every change that shows.

        A member whose heartbeat stops is such a change, though nobody writes anything. Ends with
        NotFound when the team is deleted.
        """
        last: Snapshot | None = None
        async with aclosing(self._store.watch(self.name, every_s=_LOOK_EVERY_S)) as changes:
            async for _ in changes:
                current = await self.snapshot()
                if current != last:
                    last = current
                    yield current

    def changes(
        self, *, agent: str | None = None, every_s: float | None = None
    ) -> AsyncGenerator[int, None]:
        """A number now, and again soon after anything about the team changed but a heartbeat.

        With `agent`, neither other agents' mail nor who is in the team is a change. With `every_s`
        also when nothing has changed for so long.
        """
        return self._store.watch(self.name, agent=agent, every_s=every_s)

    async def events(self, *, after: int = 0, limit: int | None = None) -> list[Event]:
        """The log, from the first event past `after`."""
        return await self._store.events(self.name, after=after, limit=limit)

    async def follow_events(self, *, after: int = 0) -> AsyncGenerator[list[Event], None]:
        """The log from the first event past `after`, then every new event, each once."""
        async with aclosing(self._store.watch(self.name)) as changes:
            async for _ in changes:
                fresh = await self.events(after=after)
                if fresh:
                    after = fresh[-1].seq
                    yield fresh
