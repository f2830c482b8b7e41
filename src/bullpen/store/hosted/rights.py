"""Who may do what through the socket. Pure.

The operator may do everything. An agent acts in its own team, always in its own name, and sees
the text of its own mail only: of other mail it learns from whom it is, when, and whether it was
read, so that it can count. What a team may do is no matter of these rights: that is decided by
the rules in `bullpen.team`, as with any store.

Some notices carry another name than that of who writes them. They count only where the same
commit, or the team as it is, proves what they say:
- the prompt an agent was spawned with, which it puts into its own mailbox when it is ready;
- the verdict on a request of its own, which code gave in the name of whoever was asked;
- the verdict "expired" on any request past its deadline;
- the notice to the lead that a member has ended, in the commit that ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bullpen.errors import Refused
from bullpen.protocol.changes import Change, Deliver, Event, PutMember, PutRequest, RemoveMember
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import (
    IdleNotification,
    PermissionResponse,
    PlanApprovalResponse,
    ShutdownApproved,
    ShutdownRejected,
    payload_of,
)
from bullpen.protocol.presence import Presence
from bullpen.protocol.request import Request
from bullpen.protocol.roster import TeamConfig
from bullpen.store.base import Mailbox, View
from bullpen.store.hosted.identities import Identity

WITHHELD = "[withheld: this is another agent's mail]"
"""What stands for a text that the reader may not see."""

_OVER = ("stopped", "failed", "lost")


def actor_of(who: Identity, given: str) -> str:
    """In whose name something is done: an agent's own, whatever it says."""
    return given if who.agent is None else who.agent


def check_team(who: Identity, team: str) -> None:
    """Refuse another team than one's own."""
    if not who.is_operator and who.team != team:
        raise Refused(
            f"Agent {who.agent!r} of team {who.team!r} cannot reach team {team!r}.",
            reason="other_team",
            remedy="Stay in your team.",
        )


def check_rule(who: Identity, team: str) -> None:
    """Refuse to make, delete or mend a team, but to its lead."""
    check_team(who, team)
    if not who.is_operator and who.agent != LEAD:
        raise Refused(
            f"Agent {who.agent!r} does not lead team {team!r}.",
            reason="other_identity",
            remedy="Ask the lead.",
        )


def check_operator(who: Identity, what: str) -> None:
    """Refuse what is for whoever runs the store."""
    if not who.is_operator:
        raise Refused(
            f"Agent {who.agent!r} cannot {what}.",
            reason="other_identity",
            remedy="Ask whoever runs this machine.",
        )


def visible_teams(who: Identity, teams: Sequence[str]) -> list[str]:
    """The teams that there are, for this one."""
    return [team for team in teams if who.is_operator or team == who.team]


def check_mailbox(who: Identity, owner: str) -> None:
    """Refuse to say for others what they have read."""
    if who.agent not in (None, owner):
        raise _other_identity(who, owner, "say what was read by")


def check_sender(who: Identity, message: Message) -> None:
    """Refuse a message in another name."""
    if who.agent not in (None, message.sender):
        raise _other_identity(who, message.sender, "write as")


def needs_proof(who: Identity, presence: Presence) -> bool:
    """Whether a heartbeat is another's, so that the team must show that it has ended."""
    return who.agent not in (None, presence.agent)


def check_last_word(who: Identity, presence: Presence, team: TeamConfig) -> None:
    """Refuse a heartbeat for another, but the last one of a launch that is over."""
    member = team.member(presence.agent)
    agent = member.agent if member is not None else None
    left = member is None
    ended = agent is not None and agent.phase == "ended" and agent.nonce == presence.nonce
    if presence.state not in _OVER or not (left or ended):
        raise _other_identity(who, presence.agent, "send a heartbeat of")


def check_changes(who: Identity, changes: Sequence[Change], view: View, *, now_ms: int) -> None:
    """Refuse changes with a message in another name that nothing proves."""
    if who.agent is None:
        return
    for change in changes:
        if (
            isinstance(change, Deliver)
            and change.message.sender != who.agent
            and not _is_own_prompt(who.agent, change, view.team)
            and not _is_verdict(who.agent, change, changes, view, now_ms)
            and not _is_last_notice(change, changes)
        ):
            raise _other_identity(who, change.message.sender, "write as")


def _is_own_prompt(agent: str, given: Deliver, team: TeamConfig) -> bool:
    """Whether this is what an agent was spawned with, and not yet in its mailbox."""
    member = team.member(agent)
    facts = member.agent if member is not None else None
    return (
        facts is not None
        and given.to == agent
        and facts.prompt_id == given.message.id
        and facts.asked.prompt == given.message.text
        and (facts.parent or LEAD) == given.message.sender
    )


def _is_verdict(
    agent: str, given: Deliver, changes: Sequence[Change], view: View, now_ms: int
) -> bool:
    """Whether this tells what came of a request that the same commit answers."""
    payload = payload_of(given.message.text)
    if not isinstance(
        payload, PermissionResponse | PlanApprovalResponse | ShutdownApproved | ShutdownRejected
    ):
        return False
    for change in changes:
        if isinstance(change, PutRequest) and change.request.id == payload.request_id:
            after = change.request
            speaker = after.to if after.state == "expired" else after.answered_by
            fits = given.to == after.sender and given.message.sender == speaker
            own = after.sender == agent and after.state != "pending"
            return fits and (own or _has_expired(after, view.request(after.id), now_ms))
    return False


def _has_expired(after: Request, before: Request | None, now_ms: int) -> bool:
    return (
        after.state == "expired"
        and before is not None
        and before.state == "pending"
        and (before.sender, before.to) == (after.sender, after.to)
        and before.deadline_ms is not None
        and before.deadline_ms <= now_ms
    )


def _is_last_notice(given: Deliver, changes: Sequence[Change]) -> bool:
    """Whether this tells the lead of an end that the same commit records."""
    name = given.message.sender
    payload = payload_of(given.message.text)
    if given.to != LEAD or not isinstance(payload, IdleNotification):
        return False
    if payload.sender != name or payload.idle_reason != "failed":
        return False
    return any(_ends(change, name) for change in changes)


def _ends(change: Change, name: str) -> bool:
    match change:
        case RemoveMember(gone):
            return gone == name
        case PutMember(member):
            agent = member.agent
            return member.name == name and agent is not None and agent.phase == "ended"
        case _:
            return False


def shown_box(who: Identity, owner: str, box: Mailbox) -> Mailbox:
    """A mailbox as this one may see it: another's without the texts."""
    if who.agent in (None, owner):
        return box
    entries = tuple(
        entry
        if entry.message.sender == who.agent
        else replace(entry, message=_withheld(entry.message, entry.id))
        for entry in box.entries
    )
    return Mailbox(entries, box.problems)


def shown_event(who: Identity, event: Event) -> Event:
    """An event as this one may see it: without the texts of others' mail."""
    if who.agent is None:
        return event
    changes = tuple(
        Deliver(change.to, _withheld(change.message, change.message.id))
        if isinstance(change, Deliver) and who.agent not in (change.to, change.message.sender)
        else change
        for change in event.changes
    )
    return replace(event, changes=changes)


def _withheld(message: Message, message_id: str) -> Message:
    """What is left of another's message: nothing but what can be counted."""
    return Message.new(
        sender=message.sender,
        text=WITHHELD,
        timestamp=message.timestamp,
        msg_id=message_id,
        read=message.read,
    )


def _other_identity(who: Identity, other: str, what: str) -> Refused:
    return Refused(
        f"Agent {who.agent!r} cannot {what} {other!r}.",
        reason="other_identity",
        remedy=f"You are {who.agent}.",
    )
