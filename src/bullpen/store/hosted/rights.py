"""Who may do what through the socket. Pure.

The operator may do everything. An agent reads its own team, and sees the text of its own mail only.
Of other mail it sees the sender, the time and whether it was read, so that it can count. It writes
nothing itself: it asks for operations, which the host runs in its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bullpen.errors import Refused
from bullpen.protocol.changes import Change, Deliver, Event, UnknownChange
from bullpen.protocol.message import Message
from bullpen.store.contract import Mailbox
from bullpen.store.hosted.tokens import TokenIdentity

WITHHELD = "[withheld: this is another agent's mail]"
"""Replaces a text that the reader may not see."""


def check_team(who: TokenIdentity, team: str) -> None:
    """Refuse any team but the agent's own."""
    if not who.is_operator and who.team != team:
        raise Refused(
            f"Agent {who.agent!r} of team {who.team!r} cannot use team {team!r}.",
            reason="other_team",
            remedy="Use your own team.",
        )


def check_operator(who: TokenIdentity, what: str) -> None:
    """Refuse what only the operator of the store may do."""
    if not who.is_operator:
        raise Refused(
            f"Agent {who.agent!r} cannot {what}.",
            reason="other_identity",
            remedy="Ask the person who runs this machine.",
        )


def visible_teams(who: TokenIdentity, teams: Sequence[str]) -> list[str]:
    """Return the teams that this identity may see."""
    return [team for team in teams if who.is_operator or team == who.team]


def shown_box(who: TokenIdentity, owner: str, box: Mailbox) -> Mailbox:
    """Return a mailbox as this identity may see it: another agent's without the texts."""
    if who.agent in (None, owner):
        return box
    entries = tuple(
        entry
        if entry.message.sender == who.agent
        else replace(entry, message=_withheld(entry.message, entry.id))
        for entry in box.entries
    )
    return Mailbox(entries, box.problems)


def shown_event(who: TokenIdentity, event: Event) -> Event:
    """Return an event as this identity may see it: without the texts of others' mail."""
    if who.agent is None:
        return event
    return replace(event, changes=tuple(_shown_change(who, change) for change in event.changes))


def _shown_change(who: TokenIdentity, change: Change) -> Change:
    match change:
        case Deliver(to, message) if who.agent not in (to, message.sender):
            return Deliver(to, _withheld(message, message.id))
        case UnknownChange(raw):
            # It may have texts of others' mail.
            return UnknownChange({"put": raw.get("put")})
        case _:
            return change


def _withheld(message: Message, message_id: str) -> Message:
    """Return what may be shown of another agent's message: only what can be counted."""
    return Message.new(
        sender=message.sender,
        text=WITHHELD,
        timestamp=message.timestamp,
        msg_id=message_id,
        read=message.read,
    )
