"""The lead lease: one process is the lead for a limited time, and another can take over."""

from __future__ import annotations

from bullpen.agents.system import processes
from bullpen.errors import Conflict
from bullpen.protocol.agent import ProcessRecord
from bullpen.protocol.clock import Clock
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import LeadLease
from bullpen.team.team import Team

_LEASE_S = 60.0
_RENEW_S = 20.0


class LeadHold:
    """The lead lease as held by one launch."""

    def __init__(self, team: Team, *, nonce: str, place: ProcessRecord, clock: Clock) -> None:
        self._agents = team.agents
        self._nonce = nonce
        self._place = place
        self._clock = clock
        self._taken_s: float | None = None

    async def take(self) -> None:
        """Take the lead lease. Raises Conflict while a living process holds it."""
        held = await self._agents.leader()
        gone = held is not None and holder_is_gone(held)
        await self._agents.take_lead(self._lease(), by=LEAD, holder_gone=gone)
        self._taken_s = self._clock() / 1000

    async def renew(self) -> None:
        """Renew the lead lease, if held. Raises Conflict if another process took it."""
        now = self._clock() / 1000
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
    return not processes.is_alive(lease.pid, lease.start)
