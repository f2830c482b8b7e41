"""Keeps the deadlines of requests right when the clock jumps or the machine sleeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bullpen.protocol.clock import Clock
from bullpen.protocol.names import LEAD
from bullpen.team.agents.liveness import JUMP_S, LATE_S, SETTLE_S, GapWatch
from bullpen.team.requests.operations import Approvals


@dataclass(slots=True)
class _Kept:
    """A deadline as it is recorded, and when it passes on the monotonic clock."""

    deadline_ms: int
    due_s: float


class RequestDeadlines:
    """The deadlines of open requests, as one process watches them.

    A deadline counts on the monotonic clock from when this process first saw it. When the wall
    clock no longer agrees with it, the record is corrected, so that everybody else, who sees only
    the wall clock, can still answer. After a gap, there is at least as long as a lease to answer.
    """

    def __init__(
        self,
        approvals: Approvals,
        *,
        by: str,
        clock: Clock,
        now: Callable[[], float],
        late_s: float = LATE_S,
    ) -> None:
        """The lead keeps those of all requests, everybody else only its own."""
        self._approvals = approvals
        self._by = by
        self._clock = clock
        self._now = now
        self._gaps = GapWatch(late_s=late_s)
        self._kept: dict[str, _Kept] = {}

    async def keep(self) -> None:
        """Correct the deadlines that no longer agree with the clock."""
        requests = (await self._approvals.all()).values()
        wall_ms, now_s = self._clock(), self._now()
        gap = self._gaps.look(wall_ms, now_s)
        seen = {
            request.id: request.deadline_ms
            for request in requests
            if request.state == "pending"
            and request.deadline_ms is not None
            and self._by in (LEAD, request.sender)
        }
        self._kept = {
            request_id: self._counted(request_id, deadline_ms, wall_ms, now_s, gap=gap)
            for request_id, deadline_ms in seen.items()
        }
        right = {
            request_id: wall_ms + round((kept.due_s - now_s) * 1000)
            for request_id, kept in self._kept.items()
        }
        wrong = {
            request_id: deadline_ms
            for request_id, deadline_ms in right.items()
            if abs(deadline_ms - seen[request_id]) > JUMP_S * 1000
        }
        if wrong:
            await self._approvals.reschedule(wrong, by=self._by)

    def _counted(
        self, request_id: str, deadline_ms: int, wall_ms: int, now_s: float, *, gap: bool
    ) -> _Kept:
        kept = self._kept.get(request_id)
        if kept is None or kept.deadline_ms != deadline_ms:
            # It is new, or another process has corrected it.
            return _Kept(deadline_ms, now_s + (deadline_ms - wall_ms) / 1000)
        return _Kept(deadline_ms, max(kept.due_s, now_s + SETTLE_S)) if gap else kept
