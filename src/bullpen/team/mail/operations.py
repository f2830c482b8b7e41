"""Mail between members: send, broadcast, read, mark."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from bullpen.errors import BullpenError, Invalid, Refused
from bullpen.protocol import names
from bullpen.protocol.agent import AgentFacts, End
from bullpen.protocol.changes import Change, Deliver
from bullpen.protocol.clock import iso
from bullpen.protocol.message import Message
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import Payload, PlanApprovalRequest, TaskAssignment
from bullpen.protocol.request import Voice
from bullpen.protocol.task import Task
from bullpen.protocol.team import Member, TeamConfig
from bullpen.store.contract import Mailbox, Mark, View
from bullpen.team import lead_rules
from bullpen.team.lookup import color_of, member_of
from bullpen.team.operation import operation
from bullpen.team.operation.commit import TeamPart, refuse_moved

_KEYED = uuid.uuid5(uuid.NAMESPACE_URL, "urn:bullpen:message-key")
_ENDS: dict[End, str] = {
    "stopped": "was stopped",
    "suspended": "was stopped with its team",
    "finished": "finished",
    "failed": "failed",
    "lost": "was lost",
}


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that is stored. `ahead` counts the unread messages before it in that mailbox."""

    id: str
    to: str
    seq: int
    ahead: int
    duplicate: bool


class Mailboxes(TeamPart):
    """The mailboxes of one team."""

    @operation
    async def send(
        self,
        to: str,
        text: str,
        *,
        sender: str,
        summary: str | None = None,
        in_reply_to: str | None = None,
        key: str | None = None,
        fresh: bool = False,
        voice: Voice = "agent",
    ) -> Sent:
        """Send a message to a member. It is stored when this returns.

        An agent that is starting gets it once it is ready. Messages with the same `key` are stored
        only once; `fresh` says that the key was made just now, so that nothing has to be searched.
        `voice` says who speaks in the sender's name: a lead that is a model reads only a person's
        words as those of its user.

        Raises:
            NotFound: the sender or receiver is not a member; the error names the members.
            Refused: the receiver has ended (member_ended); or it is an order from somebody who may
                not give it (not_lead).
        """
        _check_text(text)
        now = self._clock()
        message_id = self._new_id() if key is None else self._keyed("send", sender, to, key)
        team = await self._store.config(self._team)
        refuse_moved(team)
        member_of(team, sender)
        _refuse_ended(member_of(team, to))
        lead_rules.refuse_orders(team, to, sender, text)
        message = new_message(
            text,
            team=team,
            sender=sender,
            message_id=message_id,
            now_ms=now,
            summary=summary,
            in_reply_to=in_reply_to,
            voice=voice,
        )
        stored = await self._store.append(
            self._team, to, message, actor=sender, fresh=fresh or key is None
        )
        return Sent(stored.id, to, stored.seq, stored.ahead, stored.duplicate)

    @operation
    async def broadcast(
        self,
        text: str,
        *,
        sender: str,
        summary: str | None = None,
        key: str | None = None,
        fresh: bool = False,
        voice: Voice = "agent",
    ) -> list[Sent]:
        """Send a message to every other member: to all or to none. `key` is as in `send`.

        Raises:
            Refused: there is no other member (nobody); not_lead, as `send` does.
        """
        _check_text(text)
        now, seed = self._clock(), self._new_id() if key is None else key
        ids: dict[str, str] = {}

        def decide(view: View) -> Sequence[Change]:
            ids.clear()
            write = partial(
                new_message,
                text,
                team=view.team,
                sender=sender,
                now_ms=now,
                summary=summary,
                voice=voice,
            )
            for name in _others(view.team, sender):
                lead_rules.refuse_orders(view.team, name, sender, text)
                ids[name] = self._keyed("broadcast", sender, name, seed)
            return [
                Deliver(name, write(message_id=message_id), fresh=fresh or key is None)
                for name, message_id in ids.items()
            ]

        ahead = await self._unread(_others(await self._store.config(self._team), sender))
        committed = await self._store.commit(
            self._team, decide, actor=sender, op="message.broadcast"
        )
        # The store skips messages that were already delivered.
        delivered = {change.to for change in committed.changes if isinstance(change, Deliver)}
        for to in (name for name in ids if name not in delivered):
            ahead[to] = _unread_before(ids[to], await self._store.mailbox(self._team, to))
        return [
            Sent(message_id, to, committed.seq, ahead.get(to, 0), duplicate=to not in delivered)
            for to, message_id in ids.items()
        ]

    async def read(self, name: str, *, after: str | None = None, history: bool = False) -> Mailbox:
        """Return a mailbox, oldest message first. A former member's mailbox can still be read.

        Raises:
            NotFound: there is no such member and no such mailbox, or no message `after`.
        """
        mailbox = await self._store.mailbox(self._team, name, after=after, history=history)
        if after is None and not (mailbox.entries or mailbox.problems):
            everything = await self._store.mailbox(self._team, name, history=True)
            if not everything.entries:
                member_of(await self._store.config(self._team), name)
        return mailbox

    async def follow(self, name: str, *, history: bool = False) -> AsyncGenerator[Mailbox, None]:
        """Yield the messages in a mailbox, then each new one, every message once.

        If another program removes messages, later ones are still delivered.
        """
        shown: set[str] | None = None
        async with aclosing(self._store.watch(self._team, agent=name)) as changes:
            async for _ in changes:
                box = await self.read(name, history=history and shown is None)
                fresh = tuple(entry for entry in box.entries if entry.id not in (shown or ()))
                if fresh or shown is None:
                    yield Mailbox(fresh, box.problems)
                shown = {entry.id for entry in box.entries}

    @operation
    async def mark(self, name: str, ids: Sequence[str], state: Mark) -> int:
        """Record the delivery state of messages. Returns how many of them changed."""
        return await self._store.acknowledge(self._team, name, ids, state, actor=name)

    async def unread(self) -> dict[str, int]:
        """Return each member's number of unread messages. Raises Unavailable on damage."""
        team = await self._store.config(self._team)
        return await self._unread([member.name for member in team.roster])

    async def _unread(self, names: Sequence[str]) -> dict[str, int]:
        numbers: dict[str, int] = {}
        for name, number in (await self._store.unread(self._team, names)).items():
            if isinstance(number, BullpenError):
                raise number
            numbers[name] = number
        return numbers

    def _keyed(self, kind: str, sender: str, to: str, key: str) -> str:
        """Return the id that every message with this key has."""
        return str(uuid.uuid5(_KEYED, json.dumps([kind, self._team, sender, to, key])))


def new_message(
    text: str,
    *,
    team: TeamConfig,
    sender: str,
    message_id: str,
    now_ms: int,
    plain: bool = False,
    summary: str | None = None,
    in_reply_to: str | None = None,
    voice: Voice = "agent",
) -> Message:
    """Return a message in its sender's colour, or without one if it is `plain`."""
    return Message.new(
        sender=sender,
        text=text,
        summary=summary or None,
        timestamp=iso(now_ms),
        color=None if plain else color_of(team, sender),
        msg_v=1,
        msg_id=message_id,
        type="message",
        in_reply_to=in_reply_to,
        read=False,
        bullpen={"voice": voice} if voice == "human" else None,
    )


def first_message(agent: AgentFacts, name: str, *, team: TeamConfig, now_ms: int) -> Message | None:
    """Return the message with the prompt that an agent was spawned with, until it was sent."""
    if agent.prompt_id is None or not agent.spec.prompt:
        return None
    sender = agent.parent or LEAD
    return new_message(
        agent.spec.prompt,
        team=team,
        sender=sender,
        message_id=agent.prompt_id,
        now_ms=now_ms,
        # Only a person starts a lead, in the lead's name.
        voice="human" if sender == name == LEAD else "agent",
    )


def notice(
    payload: Payload, *, team: TeamConfig, sender: str, message_id: str, now_ms: int
) -> Message:
    """Return the message that carries a payload."""
    names.check_component(sender, kind="member name")
    # Claude Code sends this one kind without a colour.
    plain = isinstance(payload, PlanApprovalRequest)
    return new_message(
        payload.text(), team=team, sender=sender, message_id=message_id, now_ms=now_ms, plain=plain
    )


def assignment(
    task: Task, *, team: TeamConfig, sender: str, message_id: str, now_ms: int
) -> Message:
    """Return the message that tells a member about a task assigned to it."""
    payload = TaskAssignment.new(
        task_id=task.id,
        subject=task.subject,
        description=task.description,
        assigned_by=sender,
        timestamp=iso(now_ms),
    )
    return notice(payload, team=team, sender=sender, message_id=message_id, now_ms=now_ms)


def _refuse_ended(member: Member) -> None:
    """Refuse mail to an agent that has ended. One that is starting gets it once it is ready.

    Raises:
        Refused: member_ended, with how to start it again.
    """
    agent = member.agent
    if agent is None or _can_receive(member):
        return
    why = f" ({agent.cause})" if agent.cause else ""
    raise Refused(
        f"{member.name!r} has ended: it {_ENDS[agent.end or 'stopped']}{why}.",
        reason="member_ended",
        remedy=f"Start it with `bullpen team resume --agent {member.name}`, then send again.",
    )


def _can_receive(member: Member) -> bool:
    """Return whether anybody reads mail for this member, now or once it has started."""
    return member.agent is None or member.is_lead or member.agent.phase != "ended"


def _others(team: TeamConfig, sender: str) -> list[str]:
    """Return everybody who can receive, except the sender, who must be a member."""
    refuse_moved(team)
    member_of(team, sender)
    others = [
        member.name for member in team.roster if member.name != sender and _can_receive(member)
    ]
    if not others:
        raise Refused(
            f"{sender!r} is the only member of team {team.name!r}.",
            reason="nobody",
            remedy="Add a teammate first.",
        )
    return others


def _unread_before(message_id: str, mailbox: Mailbox) -> int:
    before = itertools.takewhile(lambda entry: entry.id != message_id, mailbox.entries)
    return sum(entry.state != "seen" for entry in before)


def _check_text(text: str) -> None:
    if not text.strip():
        raise Invalid("The message is empty.", remedy="Write a text.")
