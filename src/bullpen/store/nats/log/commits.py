"""The commits of this process to one team: those that wait for each other are stored together.

A commit that finds nobody at work runs at once. Others wait until that one is stored; then all of
them are decided one after another, each on the team as those before it leave it, and stored in one
message: all or none. So many members on one machine cost one round trip, and hosts that write to
the same team collide less often.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from bullpen.errors import Invalid, Unavailable
from bullpen.protocol.changes import Change, Event
from bullpen.protocol.clock import Clock, iso
from bullpen.store.contract import Committed
from bullpen.store.nats.log.log import Gone, TeamLog
from bullpen.store.nats.log.packing import together_max
from bullpen.store.nats.log.state import LogState

Plan = Callable[[LogState], Sequence[Change]]
"""Decides on the team. It may run several times; it raises to refuse, or `Lacking`."""


class Lacking(Exception):
    """A plan cannot decide before `get` has run."""

    def __init__(self, get: Callable[[], Awaitable[None]]) -> None:
        self.get = get
        super().__init__()


@dataclass(slots=True, eq=False)
class Commit:
    """One commit: what it wants, what was decided, and who waits for it."""

    plan: Plan
    actor: str
    op: str
    began: float = field(default_factory=time.monotonic)
    event: Event | None = None
    refusal: Exception | None = None
    waiter: asyncio.Future[None] | None = None

    @property
    def is_abandoned(self) -> bool:
        """Return whether nobody waits for it any more."""
        return self.waiter is not None and self.waiter.done()

    def decide(self, view: LogState, now: str) -> Event | None:
        """Return its event after those of the view; None if it changes nothing or is refused."""
        self.event = self.refusal = None
        try:
            changes = self.plan(view)
        except Lacking:
            raise
        except Exception as error:
            self.refusal = error
            return None
        if changes:
            self.event = Event(view.seq + 1, now, self.actor, self.op, tuple(changes))
        return self.event


class CommitQueue:
    """Decides and stores the commits to one team, in the order in which they came."""

    def __init__(self, log: TeamLog, clock: Clock, *, wait_s: float) -> None:
        self._log = log
        self._clock = clock
        self._wait_s = wait_s
        self._works = False
        self._waiting: list[Commit] = []
        self._task: asyncio.Task[None] | None = None

    async def run(self, plan: Plan, *, actor: str, op: str) -> Committed:
        """Store one commit. Raises what its plan raises, Gone and Unavailable."""
        commit = Commit(plan, actor, op)
        if self._works:
            await self._wait(commit)
        else:
            self._works = True
            try:
                async with self._log.turn() as deadline:
                    await self._store([commit], deadline)
            finally:
                self._go_on()
        if commit.refusal is not None:
            raise commit.refusal
        if commit.event is None:
            return Committed(self._log.kept.seq, ())
        return Committed(commit.event.seq, commit.event.changes)

    async def _wait(self, commit: Commit) -> None:
        commit.waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(commit)
        try:
            await asyncio.wait([commit.waiter], timeout=self._wait_s)
            if not commit.waiter.done() and commit in self._waiting:
                raise self._log.busy()
            await commit.waiter
        finally:
            # A commit that was already decided may still be stored.
            commit.waiter.cancel()
            if commit in self._waiting:
                self._waiting.remove(commit)

    def _go_on(self) -> None:
        if self._waiting:
            # A task of its own: whoever came first may give up, and the others go on.
            self._task = asyncio.create_task(self._work_off())
        else:
            self._works = False

    async def _work_off(self) -> None:
        commits: list[Commit] = []
        try:
            while self._waiting:
                count = together_max(self._log.kept.format)
                commits, self._waiting = self._waiting[:count], self._waiting[count:]
                try:
                    async with self._log.turn() as deadline:
                        await self._store(commits, deadline)
                except Exception as error:
                    _tell(commits, error)
                _tell(commits, None)
        finally:
            # If the loop is about to end, nobody waits for ever.
            for commit in (*commits, *self._waiting):
                if commit.waiter is not None:
                    commit.waiter.cancel()
            self._works, self._waiting = False, []

    async def _store(self, commits: Sequence[Commit], deadline: float) -> None:
        """Decide and store commits. The caller has the turn. Raises Gone and Unavailable."""
        log, lost = self._log, 0
        await log.let_others()
        # However often others are faster: somebody always succeeds, and eventually this call does.
        while not lost or time.monotonic() < deadline:
            try:
                events = self._decide(commits)
            except Lacking as lacking:
                await lacking.get()
                continue
            if not events:
                # A refusal counts only if it is based on the team's state since the call.
                began = max(commit.began for commit in commits)
                if log.certain >= began or not await log.confirm_in_turn(deadline):
                    return
                continue
            try:
                is_stored = await log.append(events, deadline)
            except Invalid:
                if len(commits) == 1:
                    raise
                await self._store_apart(commits, deadline)
                return
            if is_stored:
                if log.is_long:
                    await log.shorten(deadline)
                return
            lost += 1
            await log.stand_back(lost)
        raise Unavailable(
            f"Team {log.address.team!r} changed {lost} times during a change to it.",
            remedy="Try again.",
        )

    def _decide(self, commits: Sequence[Commit]) -> list[Event]:
        """Return the events of commits that follow each other. Nothing is applied to the log."""
        events: list[Event] = []
        now, view = iso(self._clock()), self._log.kept
        for commit in commits:
            if commit.is_abandoned:
                continue
            if events and view.seq < events[-1].seq:
                view = view if events[1:] else view.branch()
                view.apply_ahead(events[-1])
            if (event := commit.decide(view, now)) is not None:
                events.append(event)
        return events

    async def _store_apart(self, commits: Sequence[Commit], deadline: float) -> None:
        """Store commits one by one: they are too long for one message."""
        for commit in commits:
            try:
                await self._store([commit], deadline)
            except Invalid as error:
                commit.refusal = error
            _tell([commit], None)


def _tell(commits: Sequence[Commit], error: Exception | None) -> None:
    """Tell those who wait how it ended, unless they were told before."""
    for commit in commits:
        if commit.waiter is None or commit.waiter.done():
            continue
        if error is None:
            commit.waiter.set_result(None)
        else:
            commit.waiter.set_exception(Gone() if isinstance(error, Gone) else error)
