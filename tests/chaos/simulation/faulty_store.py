"""A store in memory whose every await can fail as the history says."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Protocol, TypeVar

import anyio

from bullpen.errors import BullpenError
from bullpen.protocol.changes import Change, Event
from bullpen.protocol.message import Message
from bullpen.protocol.presence import Presence
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import (
    Committed,
    Decide,
    Finding,
    Mailbox,
    Mark,
    Store,
    Stored,
    TeamState,
)
from bullpen.store.memory import MemoryStore

T = TypeVar("T")


class Trouble(Protocol):
    """What decides about each await."""

    async def before(self, what: str, *, writes: bool) -> bool:
        """Wait, raise, or return whether the answer gets lost."""

    async def after(self, what: str, *, lost: bool) -> None:
        """Raise if the answer gets lost, or if the process ends here."""

    def owners(self) -> dict[str, str | None]:
        """Who works on which task."""

    def expired(self, owners: dict[str, str | None], changes: Sequence[Change]) -> None:
        """Hear whose leases ran out."""

    def silent_s(self) -> float:
        """How long this process still hears of no change."""


class FaultyStore(Store):
    """The store that every simulated process uses."""

    def __init__(self, kept: MemoryStore, trouble: Trouble) -> None:
        self._kept = kept
        self._trouble = trouble

    async def _do(self, what: str, do: Callable[[], Awaitable[T]], *, writes: bool) -> T:
        lost = await self._trouble.before(what, writes=writes)
        done = await do()
        await self._trouble.after(what, lost=lost)
        return done

    async def create(self, team: str, config: TeamConfig, *, actor: str) -> None:
        await self._do("create", lambda: self._kept.create(team, config, actor=actor), writes=True)

    async def restore(self, team: str, events: Sequence[Event]) -> None:
        await self._do("restore", lambda: self._kept.restore(team, events), writes=True)

    async def delete(self, team: str, *, actor: str) -> bool:
        return await self._do("delete", lambda: self._kept.delete(team, actor=actor), writes=True)

    async def teams(self) -> list[str]:
        return await self._do("teams", self._kept.teams, writes=False)

    async def config(self, team: str) -> TeamConfig:
        return await self._do("config", lambda: self._kept.config(team), writes=False)

    async def read(self, team: str) -> TeamState:
        return await self._do("read", lambda: self._kept.read(team), writes=False)

    async def commit(self, team: str, decide: Decide, *, actor: str, op: str) -> Committed:
        async def do() -> Committed:
            if op != "task.expire":
                return await self._kept.commit(team, decide, actor=actor, op=op)
            owners = self._trouble.owners()
            committed = await self._kept.commit(team, decide, actor=actor, op=op)
            self._trouble.expired(owners, committed.changes)
            return committed

        return await self._do(op, do, writes=True)

    async def append(
        self, team: str, to: str, message: Message, *, actor: str, fresh: bool = False
    ) -> Stored:
        return await self._do(
            "append",
            lambda: self._kept.append(team, to, message, actor=actor, fresh=fresh),
            writes=True,
        )

    async def mailbox(
        self, team: str, agent: str, *, after: str | None = None, history: bool = False
    ) -> Mailbox:
        return await self._do(
            "mailbox",
            lambda: self._kept.mailbox(team, agent, after=after, history=history),
            writes=False,
        )

    async def unread(self, team: str, agents: Sequence[str]) -> Mapping[str, int | BullpenError]:
        return await self._do("mailbox", lambda: self._kept.unread(team, agents), writes=False)

    async def acknowledge(
        self, team: str, agent: str, ids: Sequence[str], state: Mark, *, actor: str
    ) -> int:
        return await self._do(
            f"mail.{state}",
            lambda: self._kept.acknowledge(team, agent, ids, state, actor=actor),
            writes=True,
        )

    async def events(self, team: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
        return await self._do(
            "events", lambda: self._kept.events(team, after=after, limit=limit), writes=False
        )

    async def recent_events(self, team: str) -> list[Event]:
        return await self._do("events", lambda: self._kept.recent_events(team), writes=False)

    async def watch(
        self, team: str, *, every_s: float | None = None, agent: str | None = None
    ) -> AsyncGenerator[int, None]:
        async with aclosing(self._kept.watch(team, every_s=every_s, agent=agent)) as changes:
            async for seq in changes:
                await self._trouble.before("watch", writes=False)
                silent_s = self._trouble.silent_s()
                if silent_s > 0:
                    await anyio.sleep(silent_s)
                yield seq

    async def beat(self, team: str, presence: Presence) -> None:
        await self._do("beat", lambda: self._kept.beat(team, presence), writes=True)

    async def presence(self, team: str) -> Mapping[str, Presence]:
        return await self._do("presence", lambda: self._kept.presence(team), writes=False)

    async def checkup(self, team: str | None, *, fix: bool) -> list[Finding]:
        return await self._kept.checkup(team, fix=fix)

    async def aclose(self) -> None:
        await self._kept.aclose()
