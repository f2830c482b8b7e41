"""Whom a change concerns: what wakes a watch for one agent, and what does not. Pure."""

from __future__ import annotations

from bullpen.protocol.changes import Change, Deliver, MarkMail, PutMember, PutTeam, RemoveMember

_NO_AGENT = ""
"""Stands for changes that are about no single agent, and none waits for."""


def concern_of(change: Change) -> str | None:
    """Which agent a change is about; None if it is about all of them."""
    match change:
        case Deliver(to=agent) | MarkMail(agent=agent):
            return agent
        case PutMember() | RemoveMember() | PutTeam():
            return _NO_AGENT
        case _:
            return None
