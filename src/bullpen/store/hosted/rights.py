"""Who may do what through the socket. Pure.

The operator may do everything. An agent acts in its own team, always in its own name, and sees the
text of its own mail only. Of other mail it sees the sender, the time and whether it was read, so
that it can count. The rules in `bullpen.team` decide what a team may do, as with any store.

Some notices carry another name than their writer's. They are accepted only if the same commit or
the current team proves them:
- the prompt an agent was spawned with, which it puts into its own mailbox when it is ready;
- the answer to its own request, which code gave in the name of the member that was asked;
- the answer "expired" to any request past its deadline;
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
from bullpen.protocol.presence import ENDED, Presence
from bullpen.protocol.request import Request
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import Mailbox, View
from bullpen.store.hosted.tokens import TokenIdentity

WITHHELD = "[withheld: this is another agent's mail]"
"""Replaces a text that the reader may not see."""


def actor_of(who: TokenIdentity, given: str) -> str:
    """Return in whose name something is done: an agent's own name, whatever it says."""
    return given if who.agent is None else who.agent


def check_team(who: TokenIdentity, team: str) -> None:
    """Refuse any team but the agent's own."""
    if not who.is_operator and who.team != team:
        raise Refused(
            f"Agent {who.agent!r} of team {who.team!r} cannot use team {team!r}.",
            reason="other_team",
            remedy="Use your own team.",
        )


def check_rule(who: TokenIdentity, team: str) -> None:
    """Refuse to create, delete or repair a team unless the agent is its lead."""
    check_team(who, team)
    if not who.is_operator and who.agent != LEAD:
        raise Refused(
            f"Agent {who.agent!r} is not the lead of team {team!r}.",
            reason="other_identity",
            remedy="Ask the lead.",
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


def check_mailbox(who: TokenIdentity, owner: str) -> None:
    """Refuse to mark other agents' mail."""
    if who.agent not in (None, owner):
        raise _other_identity(who, owner, "mark the mail of")


def check_sender(who: TokenIdentity, message: Message) -> None:
    """Refuse a message in another name."""
    if who.agent not in (None, message.sender):
        raise _other_identity(who, message.sender, "send messages as")


def needs_proof(who: TokenIdentity, presence: Presence) -> bool:
    """Return whether a heartbeat is another agent's, so that its end must be proven."""
    return who.agent not in (None, presence.agent)


def check_last_word(who: TokenIdentity, presence: Presence, team: TeamConfig) -> None:
    """Refuse another agent's heartbeat, except the last one of a launch that has ended."""
    member = team.member(presence.agent)
    agent = member.agent if member is not None else None
    left = member is None
    ended = agent is not None and agent.phase == "ended" and agent.nonce == presence.nonce
    if presence.state not in ENDED or not (left or ended):
        raise _other_identity(who, presence.agent, "send a heartbeat of")


def check_changes(
    who: TokenIdentity, changes: Sequence[Change], view: View, *, now_ms: int
) -> None:
    """Refuse changes that include an unproven message in another name."""
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
            raise _other_identity(who, change.message.sender, "send messages as")


def _is_own_prompt(agent: str, given: Deliver, team: TeamConfig) -> bool:
    """Return whether this is the prompt an agent was spawned with, not yet in its mailbox."""
    member = team.member(agent)
    facts = member.agent if member is not None else None
    return (
        facts is not None
        and given.to == agent
        and facts.prompt_id == given.message.id
        and facts.spec.prompt == given.message.text
        and (facts.parent or LEAD) == given.message.sender
    )


def _is_verdict(
    agent: str, given: Deliver, changes: Sequence[Change], view: View, now_ms: int
) -> bool:
    """Return whether this reports the result of a request that the same commit answers."""
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
    """Return whether this tells the lead about an end that the same commit records."""
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
    changes = tuple(
        Deliver(change.to, _withheld(change.message, change.message.id))
        if isinstance(change, Deliver) and who.agent not in (change.to, change.message.sender)
        else change
        for change in event.changes
    )
    return replace(event, changes=changes)


def _withheld(message: Message, message_id: str) -> Message:
    """Return what may be shown of another agent's message: only what can be counted."""
    return Message.new(
        sender=message.sender,
        text=WITHHELD,
        timestamp=message.timestamp,
        msg_id=message_id,
        read=message.read,
    )


def _other_identity(who: TokenIdentity, other: str, what: str) -> Refused:
    return Refused(
        f"Agent {who.agent!r} cannot {what} {other!r}.",
        reason="other_identity",
        remedy=f"You are {who.agent}.",
    )
