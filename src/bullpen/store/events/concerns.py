"""Which agent a change concerns, so that a watch for one agent wakes only when needed. Pure."""

from __future__ import annotations

from bullpen.protocol.changes import (
    Change,
    Deliver,
    MarkMail,
    PutMember,
    PutTeam,
    RemoveMember,
    RemoveRequest,
)

_NO_AGENT = ""
"""Stands for changes that concern no agent and that nobody waits for."""


def concern_of(change: Change) -> str | None:
    """Return the agent that a change concerns; None if it concerns everybody."""
    match change:
        case Deliver(to=agent) | MarkMail(agent=agent):
            return agent
        case PutMember() | RemoveMember() | PutTeam() | RemoveRequest():
            return _NO_AGENT
        case _:
            return None
