"""What a runner says about itself, again and again, so that silence means something."""

from __future__ import annotations

from typing import Any, Literal

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
    # The launch that sends it: a heartbeat of an earlier one proves nothing about this one.
    nonce: str | None = None
    # What it does at the moment, and what it did last.
    tool: str | None = None
    actions: list[str] | None = None
    usage: dict[str, Any] | None = None
    # How much of its model's context window the last request took, from 0 to 1.
    context: float | None = None

    def alive(self, now_ms: int) -> bool:
        """Whether the last heartbeat is young enough to be believed."""
        return self.state not in ("stopped", "failed", "lost") and (
            now_ms - self.beat_ms <= self.ttl_ms
        )
