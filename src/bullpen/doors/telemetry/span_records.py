"""Spans as plain records, independent of any library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bullpen.protocol.agent import Usage

Attribute = str | int | float | bool | tuple[str, ...]

TurnEnd = Literal["idle", "ended", "lost"]
"""How a turn ended: normally, with its agent, or unnoticed because the agent was lost."""


@dataclass(slots=True)
class TurnSpan:
    """A turn in progress, with the agent's usage before it and the tasks it worked on."""

    agent: str
    span_id: str
    seq: int
    from_ms: int
    used: Usage
    tasks: list[str]


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """A span that has ended. `links` are ids of spans in the same trace."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str | None
    from_ms: int
    to_ms: int
    attributes: Mapping[str, Attribute]
    links: tuple[str, ...] = ()
    error: str | None = None
    turn: TurnSpan | None = None
