"""What a trace is made of: spans as plain records, before any library sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bullpen.protocol.agent import Usage

Attribute = str | int | float | bool | tuple[str, ...]

TurnEnd = Literal["idle", "ended", "lost"]
"""How a turn ended: with its last word, with its agent, or unseen, because the agent was gone."""


@dataclass(slots=True)
class Turn:
    """A turn that an agent is in, with what it had used before and the tasks it has had in it."""

    agent: str
    span_id: str
    seq: int
    from_ms: int
    used: Usage
    tasks: list[str]


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """A span that has ended. `links` are ids of spans of the same trace."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str | None
    from_ms: int
    to_ms: int
    attributes: Mapping[str, Attribute]
    links: tuple[str, ...] = ()
    error: str | None = None
    turn: Turn | None = None
