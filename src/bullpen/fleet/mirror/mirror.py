"""Mirrors a team of one store, the *far* one, into a home of files, the *near* one.

Both logs tell what changed, and the mirror carries it over: what its residents did in the home is
decided where the team lives, by the rules there, and the home is then updated to the team. Nothing
is carried twice, even if the mirror is killed: an event of the home is carried in one commit that
names it, a message enters a mailbox only if that mailbox's log never had it, and records are
compared. There are no loops, because each side recognizes the mirror's own events.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bullpen.errors import Conflict, NotFound, Refused, Unavailable
from bullpen.fleet.mirror.home_log import HomeLog
from bullpen.fleet.mirror.mirror_origin import REFUSED, TAKEN, MirrorOrigin
from bullpen.fleet.mirror.residents import Residents
from bullpen.fleet.mirror.state_file import Cursor, MirrorState
from bullpen.fleet.mirror.to_home import Taking
from bullpen.fleet.mirror.to_team import Refusal, Sending
from bullpen.protocol.changes import Change, Deliver, Event, MarkMail, PutMember
from bullpen.protocol.clock import Clock, iso, now_ms
from bullpen.protocol.message import Message
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import Mark, Store, View
from bullpen.team.operation.commit import refuse_moved

SPEAKER = "bullpen"
"""The sender that tells a resident that an action of its was refused."""

_CHUNK = 500
_NOTICES = uuid.UUID("5b0b1c52-7c3a-4b1e-9d55-2f3a6f1f4c11")
_MARKS: tuple[Mark, ...] = ("injected", "seen")


@dataclass(slots=True)
class Counts:
    """What a mirror did since it was started."""

    sent: int = 0
    taken: int = 0
    refused: int = 0
    last_refusal: str = ""


@dataclass(slots=True)
class _Open:
    """A mirror that has found both sides."""

    origin: MirrorOrigin
    cursor: Cursor
    remembered: HomeLog
    # Mail from before its receivers lived here.
    earlier: list[Deliver] = field(default_factory=list)
    # The other store is at least at this event: what it says about an earlier one is outdated.
    far_least: int = 0


class TeamMirror:
    """The mirror of one team in one home. Only one at a time: `place.held()` ensures that."""

    def __init__(
        self,
        near: Store,
        far: Store,
        team: str,
        *,
        home: Path,
        members: Collection[str] = (),
        clock: Clock = now_ms,
    ) -> None:
        self.team = team
        self.place = MirrorState(home, team)
        self.counts = Counts()
        self.contact_ms: int | None = None
        self._near, self._far = near, far
        self._named = frozenset(members)
        self._clock = clock
        # The last events of the home and of the other store that were handled.
        self.position = (0, 0)
        self._open: _Open | None = None

    async def step(self) -> bool:
        """Carry over what there is, home first. Returns whether there was anything.

        Raises Unavailable if a side cannot be reached, NotFound if the team is gone on one side,
        Refused if it was moved to another store (moved), and Conflict if the home has another team
        with that name. Nothing is lost.
        """
        opened, self._open = self._open, None
        opened = opened or await self._find_both()
        try:
            sent = await self._send(opened)
            taken = await self._take(opened)
        except NotFound as error:
            raise await self._gone() from error
        except Conflict as error:
            raise Unavailable(error.message, remedy=error.remedy) from error
        # Only now: a commit that failed may have happened, and only the logs can tell.
        self._open, self.position = opened, (opened.cursor.near, opened.cursor.far)
        return sent or taken

    async def _gone(self) -> NotFound:
        if self.team not in await self._near.teams():
            return NotFound(
                f"The files of team {self.team!r} were removed from {self.place.home}.",
                remedy="Start the mirror again: it creates the files again and touches no others.",
            )
        return NotFound(
            f"The store has no team {self.team!r}.",
            remedy=f"Its mirrored files are still in {self.place.home}.",
        )

    # Start

    async def _find_both(self) -> _Open:
        team = await self._far.config(self.team)
        refuse_moved(team)
        self._heard()
        origin = await self._home_of(team)
        remembered = HomeLog(origin)
        found = self.place.load(origin.mirror)
        cursor = found or Cursor(origin.mirror)
        opened = _Open(origin, cursor, remembered)
        await self._reread(opened, known=found is not None)
        await self._fetch_earlier(opened)
        return opened

    async def _home_of(self, team: TeamConfig) -> MirrorOrigin:
        """Return the mirror that the home belongs to; create the team in a home without it."""
        if self.team not in await self._near.teams():
            origin = MirrorOrigin(secrets.token_hex(4))
            shown = Residents(self._named, ()).config(team)
            await self._near.create(self.team, shown, actor=origin.actor)
            return origin
        first = await self._near.events(self.team, limit=1)
        found = MirrorOrigin.of_first(first[0]) if first else None
        if found is None:
            raise Conflict(
                f"{self.place.home} has its own team {self.team!r}.",
                remedy="Mirror into another directory.",
            )
        if (await self._near.config(self.team)).created_at != team.created_at:
            raise Conflict(
                f"{self.place.home} mirrors an earlier team {self.team!r}.",
                remedy="Mirror into another directory.",
            )
        return found

    async def _reread(self, opened: _Open, *, known: bool) -> None:
        """Find out how far both directions are: the logs tell what was not recorded."""
        cursor, remembered = opened.cursor, opened.remembered
        far_log = cursor.far if known else 0
        while events := await self._far.events(self.team, after=far_log, limit=_CHUNK):
            far_log = events[-1].seq
            for event in events:
                carried = opened.origin.sent.seq_in(event)
                if carried is not None:
                    cursor.near = max(cursor.near, carried)
                    opened.far_least = event.seq
        near_log = 0
        while events := await self._near.events(self.team, after=near_log, limit=_CHUNK):
            near_log = events[-1].seq
            for event in events:
                carried = REFUSED.seq_in(event)
                if opened.origin.is_ours(event) and carried is not None:
                    cursor.near = max(cursor.near, carried)
                if event.seq <= cursor.near:
                    remembered.take(event)
                elif not known:
                    remembered.taken = max(remembered.taken, TAKEN.seq_in(event) or 0)
        if not known:
            cursor.far = remembered.taken
        if cursor.far > far_log:
            raise Conflict(
                f"The log of team {self.team!r} ends before what {self.place.home} has of it.",
                remedy="It is another team with that name. Mirror it into another directory.",
            )

    async def _fetch_earlier(self, opened: _Open) -> None:
        """Fetch mail that its receiver has not seen and that was sent before it lived here."""
        state = await self._far.read(self.team)
        cursor = opened.cursor
        residents = self._residents(opened)
        for name in residents.names(state.team):
            if name not in cursor.members:
                box = await self._far.mailbox(self.team, name)
                opened.earlier += [Deliver(name, entry.message) for entry in box.unread]
        if cursor.far == 0:
            cursor.far = state.seq
        self._heard()

    # From the home

    async def _send(self, opened: _Open) -> bool:
        remembered, cursor = opened.remembered, opened.cursor
        moved = False
        while events := await self._near.events(self.team, after=remembered.seq, limit=_CHUNK):
            for event in events:
                if event.seq > cursor.near and not opened.origin.is_ours(event):
                    await self._send_one(opened, event)
                    moved = True
                remembered.take(event)
                cursor.near = max(cursor.near, event.seq)
            self.place.save(cursor)
        return moved

    async def _send_one(self, opened: _Open, event: Event) -> None:
        residents = self._residents(opened)
        sending = Sending(event, opened.remembered, residents, self._clock())
        # Before the commit that records this event as carried: they can be repeated.
        await self._send_marks(sending, residents)
        actor = opened.origin.actor if event.observed else event.actor
        try:
            committed = await self._far.commit(
                self.team, sending.decide, actor=actor, op=opened.origin.sent.of(event.seq)
            )
        except Refused as error:
            if error.reason == "moved":
                raise
            sending.refusals = [Refusal(event.op, error)]
        else:
            opened.far_least = max(opened.far_least, committed.seq)
            self.counts.sent += len(committed.changes)
        self._heard()
        if sending.refusals:
            await self._answer(opened, event, sending.refusals)

    async def _send_marks(self, sending: Sending, residents: Residents) -> None:
        if not any(isinstance(change, MarkMail) for change in sending.event.changes):
            return
        team = await self._far.config(self.team)
        refuse_moved(team)
        for mark in _MARKS:
            for agent, ids in sending.marks(mark).items():
                if residents.has(team, agent):
                    self.counts.sent += await self._far.acknowledge(
                        self.team, agent, ids, mark, actor=agent
                    )

    async def _answer(self, opened: _Open, event: Event, refusals: list[Refusal]) -> None:
        """Tell the residents what was refused. Records are corrected with all others."""
        self.counts.refused += len(refusals)
        self.counts.last_refusal = f"{refusals[-1].what}: {refusals[-1].why.message}"
        notices = [
            notice
            for refusal in refusals
            if refusal.tell is not None
            and not opened.remembered.knows(
                refusal.tell, (notice := self._notice(opened, event, refusal)).message.id
            )
        ]
        rights = [refusal.right for refusal in refusals if refusal.right is not None]

        def decide(view: View) -> list[Change]:
            stale = (right for right in rights if view.team.member(right.name) != right)
            return [*(PutMember(right) for right in stale), *notices]

        await self._near.commit(
            self.team, decide, actor=opened.origin.actor, op=REFUSED.of(event.seq)
        )

    def _notice(self, opened: _Open, event: Event, refusal: Refusal) -> Deliver:
        told = f"{refusal.why.message} {refusal.why.remedy}".strip()
        message = Message.new(
            sender=SPEAKER,
            text=f"Your change to {refusal.what} was refused. {told}",
            summary=f"{refusal.what} is unchanged",
            timestamp=iso(self._clock()),
            msg_v=1,
            msg_id=str(uuid.uuid5(_NOTICES, f"{opened.origin.mirror}/{event.seq}/{refusal.what}")),
            type="message",
            read=False,
        )
        return Deliver(refusal.tell or "", message)

    # To the home

    async def _take(self, opened: _Open) -> bool:
        cursor, origin = opened.cursor, opened.origin
        events = await self._far.events(self.team, after=cursor.far, limit=_CHUNK)
        # Read after its events, so that no message arrives before the task that it is about.
        state = await self._far.read(self.team)
        self._heard()
        refuse_moved(state.team)
        if state.seq < opened.far_least:
            raise Unavailable(
                f"The store of team {self.team!r} does not show the latest changes yet.",
                remedy="Try again in a moment.",
            )
        residents = self._residents(opened)
        mail = [*opened.earlier, *_mail(events, origin, residents, state.team)]
        taking = Taking(state, opened.remembered, residents, mail)
        seq = events[-1].seq if events else cursor.far
        committed = await self._near.commit(
            self.team, taking.decide, actor=origin.actor, op=TAKEN.of(seq)
        )
        marked = await self._take_marks(events, opened, committed.changes)
        self.counts.taken += len(committed.changes) + marked
        here = residents.names(state.team)
        if events or opened.earlier or cursor.members != here:
            opened.earlier = []
            cursor.far, cursor.members = seq, here
            self.place.save(cursor)
        return bool(events or committed.changes or marked)

    async def _take_marks(
        self, events: Iterable[Event], opened: _Open, delivered: Iterable[Change]
    ) -> int:
        just_now = {
            (change.to, change.message.id) for change in delivered if isinstance(change, Deliver)
        }
        marked = 0
        for event in events:
            for change in event.changes:
                if not isinstance(change, MarkMail) or change.state in ("stored", "injected"):
                    continue
                ids = [
                    message_id
                    for message_id in change.ids
                    if opened.remembered.knows(change.agent, message_id)
                    or (change.agent, message_id) in just_now
                ]
                if ids:
                    marked += await self._near.acknowledge(
                        self.team, change.agent, ids, "seen", actor=opened.origin.actor
                    )
        return marked

    def _residents(self, opened: _Open) -> Residents:
        return Residents(self._named, opened.remembered.born)

    def _heard(self) -> None:
        self.contact_ms = self._clock()


def _mail(
    events: Iterable[Event], origin: MirrorOrigin, residents: Residents, team: TeamConfig
) -> list[Deliver]:
    """Return the messages for residents, except those sent from here."""
    return [
        change
        for event in events
        if origin.sent.seq_in(event) is None
        for change in event.changes
        if isinstance(change, Deliver) and residents.has(team, change.to)
    ]
