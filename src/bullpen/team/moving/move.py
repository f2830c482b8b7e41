"""Moves a whole team, with its history, from one store to another.

There is never more than one active copy, and one store always has the whole log:

1. The source is closed: a mark in its own log names the target. A closed team refuses changes.
2. All events, including the mark, are restored at the target. This copy is closed too.
3. Source and copy are compared by count and by digest.
4. The copy is opened by removing its mark. From now on the team lives at the target.
5. The source is deleted, or kept closed.

If the process is killed between two steps, run the same move again to finish it. An error before
step 4 is undone, provided that the copy is certainly not active.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from bullpen.errors import BullpenError, Conflict, Invalid, NotFound, Refused
from bullpen.protocol.changes import Change, Event
from bullpen.protocol.clock import Clock, now_ms
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import Store, View
from bullpen.store.record_checks import no_team
from bullpen.team.moving import fingerprint
from bullpen.team.moving import rules as move_rules
from bullpen.team.moving.fingerprint import Fingerprint, log_digest
from bullpen.team.operation.commit import MovedMark, NewId, mark_of, moved_away, new_id

SLICE = 10_000
"""Events to read at once. Each read also looks for changes that other programs made to the files.
"""

Stage = Literal["closed", "copied", "restored", "compared", "opened", "removed"]
Progress = Callable[[Stage, int], None]
"""Called after each stage and after each copied slice, with the number of events."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A team after its move, and what was compared on both sides."""

    team: str
    to: str
    events: int
    messages: int
    digest: str
    kept: bool


def _silent(_stage: Stage, _events: int) -> None:
    """Ignore progress."""


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
    """Move a team to another store, whose address is `to`. With `keep`, leave a closed copy here.

    Raises:
        NotFound: there is no such team.
        Refused: members are at work (members_alive), records cannot be read (damaged), or the team
            was moved elsewhere (moved).
        Conflict: the target has another team with that name, the copy differs, or another move of
            this team took over.
        Invalid: `to` contains a password.
    """
    if "@" in to.partition("://")[2]:
        raise Invalid(
            "The address of a store must not contain a user or password, because the team's log "
            "keeps the address.",
            remedy="Put the credentials in a file and name it in BULLPEN_CREDS.",
        )
    mark = MovedMark.new(to=to, run=new_id(), by=by, at_ms=clock())
    return await _Move(source, target, team, mark, on_progress or _silent, clock).carry_out(
        keep=keep
    )


@dataclass(frozen=True, slots=True)
class _Copy:
    """What the target has under the team's name.

    `closed` was left by an earlier attempt: it is not active and has nothing that the source lacks.
    `living` is the team itself, which arrived there with this many `events`.
    """

    kind: Literal["none", "closed", "living", "other"]
    events: int = 0


class _Move:
    def __init__(
        self,
        source: Store,
        target: Store,
        team: str,
        mark: MovedMark,
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
            raise moved_away(self._team, before)
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

    # Inspection

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
        """Return what the target has, compared with the log of the source."""
        there = await _config(self._target, self._team)
        if there is None:
            return _Copy("none")
        theirs = await self._events(self._target)
        if mark_of(there) is not None and _is_beginning(theirs, ours):
            return _Copy("closed")
        taken, closed_at = _taken_along(theirs, self._mark.to), _closed_at(ours)
        # If the source was active since, the copy there is outdated.
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
        """Return the result of a move that was killed after its last step."""
        if await _config(self._target, self._team) is None:
            raise no_team(self._team)
        events = await self._events(self._target)
        taken = _taken_along(events, self._mark.to)
        if not taken:
            raise no_team(self._team)
        there = await fingerprint.take(self._target, self._team, events)
        digest = log_digest(events[:taken])
        return Moved(self._team, self._mark.to, taken, there.messages, digest, kept=False)

    # Steps

    async def _close(self) -> None:
        """Close the source, or take over from an earlier attempt that closed it."""

        def decide(view: View) -> Sequence[Change]:
            before = mark_of(view.team)
            if before is not None and before.to != self._mark.to:
                raise moved_away(self._team, before)
            return move_rules.closing(view, self._mark)

        await self._source.commit(self._team, decide, actor=self._mark.by, op="team.move")
        self._tell("closed", 0)

    async def _hold(self) -> None:
        """Make sure that no other attempt took over, because it may have opened the copy."""

        def decide(view: View) -> Sequence[Change]:
            if mark_of(view.team) != self._mark:
                raise Conflict(
                    f"Another process took over the move of team {self._team!r}.",
                    remedy="Let it finish.",
                )
            return ()

        await self._source.commit(self._team, decide, actor=self._mark.by, op="team.move")

    async def _arrive(self) -> Fingerprint:
        """Create a closed copy at the target that equals the source."""
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
            found = f"the mail of {agent!r} is in a different order"
        if found is not None:
            raise Conflict(
                f"The copy of team {self._team!r} at {self._mark.to} differs: {found}.",
                remedy="The team was not moved. Stop programs that write to it, then try again.",
            )
        self._tell("compared", here.events)
        return here

    async def _open(self) -> None:
        """Open the copy."""
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
        """Remove the closed source. The target has everything."""
        since = await self._source.events(self._team, after=taken)
        more = [event for event in since if move_rules.closed_by(event) is None]
        if more:
            raise Conflict(
                f"Team {self._team!r} was moved to {self._mark.to}, but the copy here was "
                f"changed afterwards: {len(more)} events, the first by {more[0].actor!r} "
                f"({more[0].op}).",
                remedy=f"Check them: bullpen events --after {taken} -t {self._team}. Then delete "
                f"the copy: bullpen team delete {self._team}",
            )
        await self._source.delete(self._team, actor=self._mark.by)
        self._tell("removed", taken)

    async def _undo(self) -> None:
        """Reopen the source, if it is certain that nothing is active at the target.

        Otherwise it stays closed, and the same move can finish or undo it later.
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
        """Remove the copy that this attempt made. False if the team is active at the target."""
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
    """Return how many events a log had when it came to this store; 0 if it was never moved.

    A team can leave and come back: the last move counts.
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
    """Return the event that closed a team, or None if it is open."""
    closed_at = None
    for event in events:
        if move_rules.closed_by(event) is not None:
            closed_at = closed_at or event.seq
        elif move_rules.may_open(event):
            closed_at = None
    return closed_at


def _taken(team: str, to: str) -> Conflict:
    return Conflict(
        f"{to} already has a team {team!r}.",
        remedy="Delete that team, or move to another store.",
    )


def _refuse_damaged(found: Fingerprint, team: str) -> None:
    if found.problems:
        first = found.problems[0]
        raise Refused(
            f"Team {team!r} has records that cannot be read and would be lost: {first.where} "
            f"({first.why}).",
            reason="damaged",
            remedy=f"Repair them first: bullpen doctor --fix -t {team}",
        )
