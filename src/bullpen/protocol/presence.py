"""What a runner says about itself, again and again, so that silence means something."""

from __future__ import annotations

from typing import Literal

from bullpen.protocol.wire import Wire

AgentState = Literal["starting", "working", "waiting", "idle", "failed", "stopped", "lost"]


class Presence(Wire):
    """One heartbeat. `pid` and `start` together name a process for good."""

    agent: str
    state: AgentState = "idle"
    since_ms: int
    beat_ms: int
    ttl_ms: int = 10_000
    detail: str | None = None
    host: str | None = None
    pid: int | None = None
    start: str | None = None

    def alive(self, now_ms: int) -> bool:
        """Whether the last heartbeat is young enough to be believed."""
        return self.state not in ("stopped", "failed", "lost") and (
            now_ms - self.beat_ms <= self.ttl_ms
        )
