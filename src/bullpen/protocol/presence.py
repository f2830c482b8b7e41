"""A runner's regular report about itself, so that silence means something."""

from __future__ import annotations

from typing import Literal

from bullpen.protocol.agent import Usage
from bullpen.protocol.record import OrAbsent, Wire

AgentState = Literal["starting", "working", "waiting", "idle", "failed", "stopped", "lost"]

ENDED: frozenset[AgentState] = frozenset({"failed", "stopped", "lost"})
"""The states of an agent that runs no more."""


class Presence(Wire):
    """One heartbeat. `pid` and `start` together identify a process forever."""

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
    # What it is doing, and what it did last.
    tool: str | None = None
    actions: list[str] | None = None
    usage: OrAbsent[Usage | None] = None
    # How much of its model's context window the last request used, from 0 to 1.
    context: float | None = None
    # The name with which its model's API answers, if it is not the one that was asked for.
    model: str | None = None

    def alive(self, now_ms: int) -> bool:
        """Return whether the last heartbeat is recent enough to be believed."""
        return self.state not in ENDED and now_ms - self.beat_ms <= self.ttl_ms
