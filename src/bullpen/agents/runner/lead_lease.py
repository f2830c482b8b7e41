"""The lead lease: one process is the lead for a limited time, and another can take over."""

from __future__ import annotations

import anyio

from bullpen.agents.system import processes
from bullpen.errors import Conflict
from bullpen.protocol.agent import ProcessRecord
from bullpen.protocol.clock import Clock
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import LeadLease
from bullpen.team.team import Team

_LEASE_S = 60.0
_RENEW_S = 20.0
_WATCH_S = 30.0
"""For how long a lease of another machine must not be renewed before it is taken over."""


class LeadHold:
    """The lead lease as held by one launch."""

    def __init__(self, team: Team, *, nonce: str, place: ProcessRecord, clock: Clock) -> None:
        self._agents = team.agents
        self._nonce = nonce
        self._place = place
        self._clock = clock
        self._taken_s: float | None = None

    async def take(self) -> None:
        """Take the lead lease. Raises Conflict while a living process holds it.

        A process on this machine leads as long as it lives, and not only until some time of a
        clock. The clock of another machine may be wrong, so what counts is whether it renews.
        """
        held = await self._agents.leader()
        gone = held is not None and holder_is_gone(held)
        if held is not None and held.nonce != self._nonce and not gone:
            left_s = (held.until_ms - self._clock()) / 1000
            if held.host == self._place.host:
                if held.pid != self._place.pid and _runs(held):
                    raise _leads(held)
            elif not 0 < left_s <= _LEASE_S:
                await self._watch(held)
                gone = True
        await self._agents.take_lead(self._lease(), by=LEAD, holder_gone=gone)
        self._taken_s = anyio.current_time()

    async def _watch(self, held: LeadLease) -> None:
        """Wait whether another machine renews its lease. Raises Conflict if it does."""
        until = anyio.current_time() + _WATCH_S
        while anyio.current_time() < until:
            await anyio.sleep(1.0)
            now = await self._agents.leader()
            if now is None:
                return
            if (now.nonce, now.until_ms) != (held.nonce, held.until_ms):
                raise _leads(now)

    async def renew(self) -> None:
        """Renew the lead lease, if held. Raises Conflict if another process took it."""
        now = anyio.current_time()
        if self._taken_s is None or now - self._taken_s < _RENEW_S:
            return
        held = await self._agents.leader()
        if held is None or held.nonce != self._nonce:
            raise Conflict(
                "Another process leads this team now.", remedy="Nothing to do: this one ends."
            )
        await self._agents.take_lead(self._lease(), by=LEAD)
        self._taken_s = now

    async def leave(self) -> None:
        """Release the lead lease."""
        if self._taken_s is not None:
            await self._agents.drop_lead(self._nonce, by=LEAD)

    def _lease(self) -> LeadLease:
        return LeadLease.new(
            nonce=self._nonce,
            until_ms=self._clock() + round(_LEASE_S * 1000),
            host=self._place.host,
            pid=self._place.pid,
            start=self._place.start,
        )


def holder_is_gone(lease: LeadLease) -> bool:
    """Whether the process that leads is certainly dead. Only its own machine can tell."""
    if lease.host != processes.host_name() or lease.pid is None or lease.start is None:
        return False
    return not _runs(lease)


def _runs(lease: LeadLease) -> bool:
    known = lease.pid is not None and lease.start is not None
    return known and processes.is_alive(lease.pid or 0, lease.start or "")


def _leads(held: LeadLease) -> Conflict:
    return Conflict(
        f"Process {held.pid} on {held.host} leads this team.",
        remedy="Wait until it ends, or stop it.",
    )
