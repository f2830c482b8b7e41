"""Moving a whole team, with its history, from one store to another.

At no moment do two copies live, and at none is the whole log in no store:

1. The source is closed: a mark in its own log says where it goes. A closed team refuses changes.
2. All events, the mark among them, are restored at the target: a copy that is closed too.
3. Both are compared by count and by digest.
4. The copy is opened: the mark is taken off it. From here on the team lives at the target.
5. The source is deleted, or kept closed.

Killed between any two steps, the same move begun anew finishes it. An error before the fourth step
undoes what was done, as long as it is certain that the copy does not live.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from bullpen.errors import BullpenError, Conflict, Invalid, NotFound, Refused
from bullpen.protocol.changes import Change, Event
from bullpen.protocol.roster import TeamConfig
from bullpen.store.base import Store, View
from bullpen.store.checks import no_team
from bullpen.store.clock import Clock, now_ms
from bullpen.team import fingerprint, move_rules
from bullpen.team.fingerprint import Fingerprint, log_digest
from bullpen.team.ids import NewId, new_id
from bullpen.team.move_rules import Mark, mark_of

SLICE = 10_000
"""Events that are read at once. Every time, files are looked through for changes of others."""

Stage = Literal["closed", "copied", "restored", "compared", "opened", "removed"]
Progress = Callable[[Stage, int], None]
"""Told after every stage, and after every slice that was copied, with the number of events."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A team that lives elsewhere now, and what was compared on both sides."""

    team: str
    to: str
    events: int
    messages: int
    digest: str
    kept: bool


def _silent(_stage: Stage, _events: int) -> None:
    """Tell nobody."""


async def move(
    source: Store,
    target: Store,
    team: str,
    *,
    to: str,
    by: str,
    keep: bool = False,
    on_progress: Progress | None = None,
    clock: Clock = now_ms,
    new_id: NewId = new_id,
) -> Moved:
    """Move a team to another store, which people know as `to`; with `keep`, leave it here, closed.

    Raises:
        NotFound: there is no such team.
        Refused: somebody is at work in it (members_alive), records of it cannot be read (damaged),
            or it was moved elsewhere (moved).
        Conflict: the target has another team of that name, the copy was not equal, or another
            move of this team took over.
        Invalid: `to` holds a password.
    """
    if "@" in to.partition("://")[2]:
        raise Invalid(
            "The address of a store must hold no user and no password: the log would keep them.",
            remedy="Name a file with credentials in BULLPEN_CREDS.",
        )
    mark = Mark.new(to=to, run=new_id(), by=by, at_ms=clock())
    return await _Move(source, target, team, mark, on_progress or _silent, clock).carry_out(
        keep=keep
    )


@dataclass(frozen=True, slots=True)
class _Copy:
    """What the target has under the team's name.

    `closed` is what an earlier attempt left: it does not live, and the source knows all of it.
    `living` is the team itself, which arrived there with so many `events`.
    """

    kind: Literal["none", "closed", "living", "other"]
    events: int = 0


class _Move:
    def __init__(
        self,
        source: Store,
        target: Store,
        team: str,
        mark: Mark,
        tell: Progress,
        clock: Clock,
    ) -> None:
        self._source, self._target, self._team = source, target, team
        self._mark, self._tell, self._clock = mark, tell, clock
        self._restored = False

    async def carry_out(self, *, keep: bool) -> Moved:
        here = await _config(self._source, self._team)
        if here is None:
            return await self._moved_before()
        before = mark_of(here)
        if before is not None and before.to != self._mark.to:
            raise move_rules.moved(self._team, before)
        events = await self._events(self._source)
        copy = await self._copy(events)
        if copy.kind != "living":
            if before is None:
                await self._check_source(events, copy)
            await self._close()
            try:
                moved = await self._arrive()
            except Exception:
                await self._undo()
                raise
            await self._open()
        else:
            moved = await fingerprint.take(self._source, self._team, events[: copy.events])
        if not keep:
            await self._remove(moved.events)
        return Moved(self._team, self._mark.to, moved.events, moved.messages, moved.log, kept=keep)

    # Looking

    async def _events(self, store: Store, *, tell: bool = False) -> list[Event]:
        found: list[Event] = []
        while True:
            after = found[-1].seq if found else 0
            more = await store.events(self._team, after=after, limit=SLICE)
            found += more
            if tell and more:
                self._tell("copied", len(found))
            if len(more) < SLICE:
                return found

    async def _copy(self, ours: Sequence[Event]) -> _Copy:
        """What the target has, given the log of the source."""
        there = await _config(self._target, self._team)
        if there is None:
            return _Copy("none")
        theirs = await self._events(self._target)
        if mark_of(there) is not None and _is_beginning(theirs, ours):
            return _Copy("closed")
        taken, closed_at = _taken_along(theirs, self._mark.to), _closed_at(ours)
        # Had the source lived since, what lives there would be an old copy of it.
        closed_since = closed_at is not None and closed_at <= taken
        if closed_since and _is_beginning(theirs[:taken], ours):
            return _Copy("living", taken)
        return _Copy("other")

    async def _check_source(self, events: Sequence[Event], copy: _Copy) -> None:
        if copy.kind == "other":
            raise _taken(self._team, self._mark.to)
        await self._refuse_alive()
        _refuse_damaged(await fingerprint.take(self._source, self._team, events), self._team)

    async def _refuse_alive(self) -> None:
        now, presence = self._clock(), await self._source.presence(self._team)
        alive = sorted(agent for agent, beat in presence.items() if beat.alive(now))
        if alive:
            raise Refused(
                f"Team {self._team!r} has members at work: {', '.join(alive)}.",
                reason="members_alive",
                remedy=f"Stop them first: bullpen stop --all -t {self._team}",
            )

    async def _moved_before(self) -> Moved:
        """The answer of a move that was killed after its last step."""
        if await _config(self._target, self._team) is None:
            raise no_team(self._team)
        events = await self._events(self._target)
        taken = _taken_along(events, self._mark.to)
        if not taken:
            raise no_team(self._team)
        there = await fingerprint.take(self._target, self._team, events)
        digest = log_digest(events[:taken])
        return Moved(self._team, self._mark.to, taken, there.messages, digest, kept=False)

    # The steps

    async def _close(self) -> None:
        """Close the source, or take over from an attempt that closed it and came to an end."""

        def decide(view: View) -> Sequence[Change]:
            before = mark_of(view.team)
            if before is not None and before.to != self._mark.to:
                raise move_rules.moved(self._team, before)
            return move_rules.closing(view, self._mark)

        await self._source.commit(self._team, decide, actor=self._mark.by, op="team.move")
        self._tell("closed", 0)

    async def _hold(self) -> None:
        """Make sure that no other attempt took over; it may have brought the team to life."""

        def decide(view: View) -> Sequence[Change]:
            if mark_of(view.team) != self._mark:
                raise Conflict(
                    f"Another move of team {self._team!r} took over.",
                    remedy="Let that one finish.",
                )
            return ()

        await self._source.commit(self._team, decide, actor=self._mark.by, op="team.move")

    async def _arrive(self) -> Fingerprint:
        """Make a closed copy at the target that is equal to the source."""
        await self._refuse_alive()
        events = await self._events(self._source, tell=True)
        copy = await self._copy(events)
        if copy.kind in ("living", "other"):
            raise _taken(self._team, self._mark.to)
        await self._hold()
        if copy.kind == "closed":
            await self._target.delete(self._team, actor=self._mark.by)
        await self._target.restore(self._team, events)
        self._restored = True
        self._tell("restored", len(events))
        return await self._compared()

    async def _compared(self) -> Fingerprint:
        ours, theirs = await self._events(self._source), await self._events(self._target)
        here = await fingerprint.take(self._source, self._team, ours)
        _refuse_damaged(here, self._team)
        there = await fingerprint.take(self._target, self._team, theirs)
        found = fingerprint.difference(here, there)
        if found is None and (
            agent := await fingerprint.misordered(self._target, self._team, ours)
        ):
            found = f"the mail of {agent!r} is in another order"
        if found is not None:
            raise Conflict(
                f"The copy of team {self._team!r} at {self._mark.to} is not equal: {found}.",
                remedy="The team stays where it is. Stop what writes to it, and try again.",
            )
        self._tell("compared", here.events)
        return here

    async def _open(self) -> None:
        """Let the copy live."""
        await self._hold()

        def decide(view: View) -> Sequence[Change]:
            if mark_of(view.team) != self._mark:
                raise _taken(self._team, self._mark.to)
            return move_rules.opening(view.team)

        done = await self._target.commit(
            self._team, decide, actor=self._mark.by, op=move_rules.OPENED
        )
        self._tell("opened", done.seq)

    async def _remove(self, taken: int) -> None:
        """Remove the closed source, which has nothing that the target has not."""
        since = await self._source.events(self._team, after=taken)
        more = [event for event in since if move_rules.closed_by(event) is None]
        if more:
            raise Conflict(
                f"Team {self._team!r} lives at {self._mark.to} now, but the copy here was changed"
                f" since: {len(more)} events, the first by {more[0].actor!r} ({more[0].op}).",
                remedy=f"Look at them: bullpen events --after {taken} -t {self._team}."
                f" Then delete the copy: bullpen team delete {self._team}",
            )
        await self._source.delete(self._team, actor=self._mark.by)
        self._tell("removed", taken)

    async def _undo(self) -> None:
        """Let the source live on, if it is certain that nothing lives at the target.

        Otherwise it stays closed, and the same move finishes or undoes it another time.
        """

        def decide(view: View) -> Sequence[Change]:
            return move_rules.opening(view.team) if mark_of(view.team) == self._mark else ()

        try:
            await self._hold()
            if not await self._remove_copy():
                return
            await self._source.commit(
                self._team, decide, actor=self._mark.by, op="team.move.undone"
            )
        except BullpenError:
            return

    async def _remove_copy(self) -> bool:
        """Remove the copy that this attempt made. False if the team lives at the target."""
        there = await _config(self._target, self._team)
        if there is None:
            return True
        if self._restored or mark_of(there) == self._mark:
            await self._target.delete(self._team, actor=self._mark.by)
            return True
        return (await self._copy(await self._events(self._source))).kind != "living"


async def _config(store: Store, team: str) -> TeamConfig | None:
    try:
        return await store.config(team)
    except NotFound:
        return None


def _is_beginning(part: Sequence[Event], whole: Sequence[Event]) -> bool:
    return len(part) <= len(whole) and log_digest(part) == log_digest(whole[: len(part)])


def _taken_along(events: Sequence[Event], to: str) -> int:
    """How many events of a log were made before it came to this place; 0 if it never did.

    A team can go away and come back: the last time counts.
    """
    count, arriving = 0, False
    for event in events:
        mark = move_rules.closed_by(event)
        if mark is not None:
            arriving = mark.to == to
        elif arriving and event.op == move_rules.OPENED:
            count, arriving = event.seq - 1, False
    return count


def _closed_at(events: Sequence[Event]) -> int | None:
    """The event since which a team has been closed; None if it lives."""
    closed_at = None
    for event in events:
        if move_rules.closed_by(event) is not None:
            closed_at = closed_at or event.seq
        elif move_rules.may_open(event):
            closed_at = None
    return closed_at


def _taken(team: str, to: str) -> Conflict:
    return Conflict(
        f"There is a team {team!r} at {to} already.",
        remedy="Delete it there, or move to another place.",
    )


def _refuse_damaged(found: Fingerprint, team: str) -> None:
    if found.problems:
        first = found.problems[0]
        raise Refused(
            f"Team {team!r} has records that cannot be read, and would be lost:"
            f" {first.where} ({first.why}).",
            reason="damaged",
            remedy=f"Mend them first: bullpen doctor --fix -t {team}",
        )
