"""Mail between members: sending, broadcasting, reading, marking."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from bullpen.errors import BullpenError, Invalid, Refused
from bullpen.protocol.changes import Change, Deliver
from bullpen.protocol.message import Message
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.times import iso
from bullpen.store.base import Mailbox, Mark, View
from bullpen.team.agent_rules import can_receive, check_addressable
from bullpen.team.decision import Part
from bullpen.team.lookup import member_of
from bullpen.team.mailcount import Count, count_mail, unread
from bullpen.team.move_rules import refuse_moved
from bullpen.team.notices import color_of

_KEYED = uuid.uuid5(uuid.NAMESPACE_URL, "urn:bullpen:message-key")


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that is durable. `ahead` counts the unread messages before it in that mailbox."""

    id: str
    to: str
    seq: int
    ahead: int
    duplicate: bool


class Mailboxes(Part):
    """The mailboxes of one team."""

    async def send(
        self,
        to: str,
        text: str,
        *,
        sender: str,
        summary: str | None = None,
        in_reply_to: str | None = None,
        key: str | None = None,
    ) -> Sent:
        """Send a message to a member; it is durable when this returns.

        Sending again with the same `key` is the same message: it is stored once.

        Raises:
            NotFound: sender or receiver is no member; the error names those there are.
            Refused: the receiver has ended (member_ended) or was never ready (not_ready).
        """
        _check_text(text)
        now = self._clock()
        message_id = self._new_id() if key is None else self._keyed("send", sender, to, key)
        team = await self._store.config(self._team)
        refuse_moved(team)
        member_of(team, sender)
        check_addressable(member_of(team, to))
        message = self._message(team, text, sender, message_id, now, summary, in_reply_to)
        stored = await self._store.append(self._team, to, message, actor=sender, fresh=key is None)
        return Sent(stored.id, to, stored.seq, stored.ahead, stored.duplicate)

    async def broadcast(
        self, text: str, *, sender: str, summary: str | None = None, key: str | None = None
    ) -> list[Sent]:
        """Send a message to every other member, to all or to none.

        Raises:
            Refused: there is no other member (nobody).
        """
        _check_text(text)
        now, seed = self._clock(), self._new_id() if key is None else key
        ids: dict[str, str] = {}

        def decide(view: View) -> Sequence[Change]:
            ids.clear()
            for name in _others(view.team, sender):
                ids[name] = self._keyed("broadcast", sender, name, seed)
            return [
                Deliver(
                    name,
                    self._message(view.team, text, sender, message_id, now, summary),
                    fresh=key is None,
                )
                for name, message_id in ids.items()
            ]

        ahead = await self._ahead(sender, seed)
        committed = await self._store.commit(
            self._team, decide, actor=sender, op="message.broadcast"
        )
        # The store leaves out what was delivered before.
        delivered = {change.to for change in committed.changes if isinstance(change, Deliver)}
        return [
            Sent(message_id, to, committed.seq, ahead.get(to, 0), duplicate=to not in delivered)
            for to, message_id in ids.items()
        ]

    async def read(self, name: str, *, after: str | None = None, history: bool = False) -> Mailbox:
        """What is in a mailbox, oldest first; a former member's can still be read.

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
        """What is in a mailbox, then what arrives in it, every message once.

        Messages that another program takes out again are not missed by what comes after them.
        """
        shown: set[str] | None = None
        async with aclosing(self._store.watch(self._team, agent=name)) as changes:
            async for _ in changes:
                box = await self.read(name, history=history and shown is None)
                fresh = tuple(entry for entry in box.entries if entry.id not in (shown or ()))
                if fresh or shown is None:
                    yield Mailbox(fresh, box.problems)
                shown = {entry.id for entry in box.entries}

    async def mark(self, name: str, ids: Sequence[str], state: Mark) -> int:
        """Record that the owner of a mailbox got messages. Returns how many went forward."""
        return await self._store.acknowledge(self._team, name, ids, state, actor=name)

    async def unread(self) -> dict[str, int]:
        """How many messages each member has not seen. Raises Unavailable if one cannot be read."""
        team = await self._store.config(self._team)
        return await self._counted({member.name: unread for member in team.roster})

    async def _ahead(self, sender: str, seed: str) -> dict[str, int]:
        """How many unread messages a broadcast finds before it, by member."""
        team = await self._store.config(self._team)
        return await self._counted(
            {
                name: _unread_before(self._keyed("broadcast", sender, name, seed))
                for name in _others(team, sender)
            }
        )

    async def _counted(self, counts: dict[str, Count]) -> dict[str, int]:
        found = await count_mail(self._store, self._team, counts)
        numbers: dict[str, int] = {}
        for name, number in found.items():
            if isinstance(number, BullpenError):
                raise number
            numbers[name] = number
        return numbers

    def _keyed(self, kind: str, sender: str, to: str, key: str) -> str:
        """The id that every message with this key has, however often it is sent."""
        return str(uuid.uuid5(_KEYED, json.dumps([kind, self._team, sender, to, key])))

    @staticmethod
    def _message(
        team: TeamConfig,
        text: str,
        sender: str,
        message_id: str,
        now_ms: int,
        summary: str | None,
        in_reply_to: str | None = None,
    ) -> Message:
        return Message.new(
            sender=sender,
            text=text,
            summary=summary or None,
            timestamp=iso(now_ms),
            color=color_of(team, sender),
            msg_v=1,
            msg_id=message_id,
            type="message",
            in_reply_to=in_reply_to,
            read=False,
        )


def _others(team: TeamConfig, sender: str) -> list[str]:
    """Everybody who can receive but the sender, who must be a member."""
    refuse_moved(team)
    member_of(team, sender)
    others = [
        member.name for member in team.roster if member.name != sender and can_receive(member)
    ]
    if not others:
        raise Refused(
            f"{sender!r} is the only member of team {team.name!r}.",
            reason="nobody",
            remedy="Add a teammate first.",
        )
    return others


def _unread_before(message_id: str) -> Count:
    def count(mailbox: Mailbox) -> int:
        before = itertools.takewhile(lambda entry: entry.id != message_id, mailbox.entries)
        return sum(entry.state != "seen" for entry in before)

    return count


def _check_text(text: str) -> None:
    if not text.strip():
        raise Invalid("A message needs a text.", remedy="Say something.")
