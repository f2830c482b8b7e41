"""The store on NATS JetStream, for teams on several machines."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial

import anyio

from bullpen.errors import NotFound, Refused, Unavailable
from bullpen.protocol import names
from bullpen.protocol.changes import Change, Deliver, Event, MarkMail
from bullpen.protocol.clock import Clock, iso, now_ms
from bullpen.protocol.message import Message
from bullpen.protocol.presence import Presence
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import (
    Committed,
    Decide,
    Finding,
    Mailbox,
    Mark,
    Store,
    Stored,
    StoreLimits,
    TeamState,
)
from bullpen.store.events.recent import RECENT_EVENTS, with_begin
from bullpen.store.events.whole_log import check_history
from bullpen.store.mail_states import ahead_of, marks, without_repeats
from bullpen.store.nats import mail
from bullpen.store.nats.client.connection import Endpoint, NatsConnection
from bullpen.store.nats.client.subjects import Address
from bullpen.store.nats.directory import Directory
from bullpen.store.nats.log import examine
from bullpen.store.nats.log import restore as restoring
from bullpen.store.nats.log.commits import CommitQueue, Lacking
from bullpen.store.nats.log.log import Gone, TeamLog
from bullpen.store.nats.log.state import LogState
from bullpen.store.nats.log.tail import EVENTS_KEPT
from bullpen.store.nats.presence import PresenceWriter
from bullpen.store.nats.relocate import enter
from bullpen.store.nats.watch import NatsWatch
from bullpen.store.record_checks import check_config, checked, creation_of, no_team, team_taken

_HEARTBEATS_BELIEVE_S = 60.0
"""How long heartbeats are accepted for a team without checking that it still exists."""


class NatsStore(Store):
    """Teams on the servers of one cell. Connects on first use.

    `believe_s` is how old the servers' last answer may be for a read to use it; 0 asks them each
    time.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        clock: Clock = now_ms,
        limits: StoreLimits | None = None,
        host: str | None = None,
        believe_s: float = 0.0,
        events_kept: int = EVENTS_KEPT,
    ) -> None:
        self._clock = clock
        self._limits = limits or StoreLimits()
        self._believe_s = believe_s
        self._events_kept = events_kept
        self.link = NatsConnection(endpoint)
        self._directory = Directory(self.link)
        self._beats = PresenceWriter(self.link, host or socket.gethostname())
        self._following = NatsWatch(self.link)
        self._logs: dict[str, TeamLog] = {}
        self._queues: dict[TeamLog, CommitQueue] = {}
        self._archived: dict[tuple[TeamLog, str], set[str]] = {}

    def asking_each_time(self) -> NatsStore:
        """Return this store with the same connection and teams, but which believes nothing."""
        other = copy(self)
        other._believe_s = 0.0
        return other

    # Teams

    async def create(self, team: str, config: TeamConfig, *, actor: str) -> None:
        """Create a team: its log first, then its entry in the directory, which makes it exist."""
        names.check_component(team, kind="team name")
        check_config(config)
        log = await self._new(team)
        changes = self._checked(log.kept, creation_of(config))
        event = self._event(log, changes, actor, "team.create")
        async with log.turn() as deadline:
            await log.append([event], deadline)
        await self._enter(log)

    async def restore(self, team: str, events: Sequence[Event]) -> None:
        """Create a team that already has a history."""
        check_history(team, events)
        log = await self._new(team)
        await restoring.store(log, events)
        await self._enter(log)

    async def _new(self, team: str) -> TeamLog:
        # Others may be faster than this check: the conditional entry decides.
        found = await self._directory.find(team, look_twice=False)
        if found.address is not None:
            with suppress(NotFound):
                await self._open(team)
                raise team_taken(team)
        log = self._log(await self._directory.place(team, secrets.token_hex(16)))
        log.kept.format = await self._directory.new_format()
        return log

    def _log(self, address: Address) -> TeamLog:
        return TeamLog(self.link, address, self._limits, events_kept=self._events_kept)

    async def _enter(self, log: TeamLog) -> None:
        team = log.address.team
        found = await self._directory.find(team, look_twice=False)
        if found.address is not None or not await self._directory.enter(
            log.address, found.revision
        ):
            await self._purge(log)
            raise team_taken(team)
        self._logs[team] = log

    async def delete(self, team: str, *, actor: str) -> bool:
        """Delete a team with the last event of its log; then clean up."""
        names.check_component(team, kind="team name")
        found = await self._directory.find(team)
        if found.address is None:
            return False
        log = self._log_at(team, found.address)
        ended = False
        try:
            async with log.turn() as deadline:
                await log.confirm_in_turn(deadline)
                while not ended:
                    event = self._event(log, [], actor, "team.delete")
                    ended = await log.append([event], deadline, last=True)
        except Gone:
            pass
        await self._directory.remove(team, found.revision)
        await self._purge(log)
        self._drop(team, log)
        return ended

    async def _purge(self, log: TeamLog) -> None:
        """Free the space of a team. Without the right to do that, leave it to the administrator."""
        client = await self.link.client()
        call = f"$JS.API.STREAM.PURGE.{log.address.stream}"
        await client.publish(call, b'{"filter":"%s"}' % log.address.everything.encode())

    def _drop(self, team: str, log: TeamLog) -> None:
        if self._logs.get(team) is log:
            del self._logs[team]
        self._queues.pop(log, None)
        self._beats.forget(log.address)
        for key in [key for key in self._archived if key[0] is log]:
            del self._archived[key]

    async def teams(self) -> list[str]:
        return await self._directory.names()

    # Reading

    async def config(self, team: str) -> TeamConfig:
        return (await self._open(team)).kept.team

    async def read(self, team: str) -> TeamState:
        """Return the whole team. If it cannot be confirmed, its problems say so."""
        log = await self._open(team)
        return replace(log.kept.state(), problems=log.doubts())

    async def mailbox(
        self, team: str, agent: str, *, after: str | None = None, history: bool = False
    ) -> Mailbox:
        names.check_component(agent, kind="member name")
        log = await self._open(team)
        box = await mail.mailbox(log, agent, after=after, history=history)
        return replace(box, problems=log.doubts())

    async def events(self, team: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
        return await mail.read_events(await self._open(team), after, limit)

    async def recent_events(self, team: str) -> list[Event]:
        log = await self._open(team)
        state, begin = log.kept.state(), log.kept.begin
        after = state.seq - RECENT_EVENTS
        if after <= (0 if begin is None else begin.first):
            return await mail.read_events(log, 0, None)
        boxes = {
            member.name: await mail.mailbox(log, member.name, after=None, history=False)
            for member in state.team.roster
        }
        # Read last, so that whatever changed meanwhile is in one of them.
        return with_begin(await mail.read_events(log, after, None), state, boxes)

    async def _open(self, team: str) -> TeamLog:
        """Return the team's log, confirmed; its last known state if the servers do not answer."""
        names.check_component(team, kind="team name")
        log = self._logs.get(team)
        if log is not None:
            age = time.monotonic() - log.confirmed
            if log.head and not log.kept.gone and 0 <= age < self._believe_s:
                return log
            try:
                await log.confirm()
                return log
            except Gone:
                self._drop(team, log)
            except Unavailable:
                if log.head:
                    log.in_doubt = True
                    return log
                raise
        found = await self._directory.find(team)
        if found.address is None:
            raise no_team(team)
        log = self._log_at(team, found.address)
        try:
            await log.confirm(within_s=self._limits.lock_wait_s)
        except Gone:
            self._drop(team, log)
            if log.moved_to is not None:
                return await self._follow(log, log.moved_to)
            if log.head:
                # The process that deleted it was killed before its entry was gone.
                await self._directory.remove(team, found.revision)
            elif await self._directory.find(team) == found:
                # No deletion leaves an entry without a log: the servers lost it.
                raise _lost(team, log.address) from None
            raise no_team(team) from None
        return log

    async def _follow(self, old: TeamLog, partition: int) -> TeamLog:
        """Return the log of a team that was moved, and complete the move if the mover did not."""
        team = old.address.team
        address = Address(team, partition, old.address.uid)
        with suppress(Refused, Unavailable):
            await enter(self._directory, address, old.address)
        log = self._log_at(team, address)
        await log.confirm(within_s=self._limits.lock_wait_s)
        return log

    def _log_at(self, team: str, address: Address) -> TeamLog:
        log = self._logs.get(team)
        if log is None or log.address != address:
            if log is not None:
                self._queues.pop(log, None)
            log = self._logs[team] = self._log(address)
        return log

    # Writing

    async def commit(self, team: str, decide: Decide, *, actor: str, op: str) -> Committed:
        """Decide on the replay and append the decision; again if another host was faster."""

        def plan(log: TeamLog, view: LogState) -> Sequence[Change]:
            return self._effective(log, view, self._checked(view, decide(view)))

        return await self._commit(team, plan, actor=actor, op=op)

    async def _commit(
        self,
        team: str,
        plan: Callable[[TeamLog, LogState], Sequence[Change]],
        *,
        actor: str,
        op: str,
    ) -> Committed:
        for _ in range(2):
            log = await self._known(team)
            try:
                return await self._queue(log).run(partial(plan, log), actor=actor, op=op)
            except Gone:
                self._drop(team, log)
        raise no_team(team)

    def _queue(self, log: TeamLog) -> CommitQueue:
        queue = self._queues.get(log)
        if queue is None:
            queue = CommitQueue(log, self._clock, wait_s=self._limits.lock_wait_s)
            self._queues[log] = queue
        return queue

    async def _known(self, team: str) -> TeamLog:
        """Return the team's log as known here; only an append can confirm it."""
        log = self._logs.get(team)
        if log is None or not log.head or log.kept.gone:
            return await self._open(team)
        return log

    def _event(self, log: TeamLog, changes: Sequence[Change], actor: str, op: str) -> Event:
        return Event(log.kept.seq + 1, iso(self._clock()), actor, op, tuple(changes))

    def _checked(self, kept: LogState, changes: Sequence[Change]) -> list[Change]:
        return checked(changes, kept.folded.team, self._limits)

    def _effective(
        self, log: TeamLog, view: LogState, changes: Sequence[Change]
    ) -> Sequence[Change]:
        """Return the changes without messages that were delivered before. Raises Lacking."""
        for change in changes:
            if isinstance(change, Deliver):
                return without_repeats(changes, partial(self._has, log, view))
        return changes

    def _has(self, log: TeamLog, view: LogState, deliver: Deliver) -> bool:
        agent, key = deliver.to, deliver.message.id
        # A commit that is stored together with this one may be about to archive it.
        if key in view.box(agent) or key in log.kept.box(agent):
            return True
        if deliver.fresh or not (count := log.kept.archived.get(agent, 0)):
            return False
        known = self._archived.get((log, agent), set())
        if len(known) != count:
            raise Lacking(lambda: self._learn_archived(log, agent))
        return key in known

    async def _learn_archived(self, log: TeamLog, agent: str) -> None:
        self._archived[log, agent] = await mail.archived_ids(log, agent)

    async def append(
        self, team: str, to: str, message: Message, *, actor: str, fresh: bool = False
    ) -> Stored:
        names.check_component(to, kind="member name")
        change = Deliver(to, message, fresh)
        committed = await self.commit(team, lambda view: [change], actor=actor, op="message")
        log = self._logs.get(team)
        ahead = 0 if log is None else ahead_of(log.kept.box(to), message.id)
        return Stored(message.id, committed.seq, ahead, duplicate=not committed.changes)

    async def acknowledge(
        self, team: str, agent: str, ids: Sequence[str], state: Mark, *, actor: str
    ) -> int:
        names.check_component(agent, kind="member name")

        def mark(log: TeamLog, view: LogState) -> Sequence[Change]:
            return marks(agent, view.box(agent), ids, state, self._limits.seen_kept)

        committed = await self._commit(team, mark, actor=actor, op=f"mail.{state}")
        first = committed.changes[0] if committed.changes else None
        return len(first.ids) if isinstance(first, MarkMail) else 0

    # Watching, presence, damage

    async def watch(
        self, team: str, *, every_s: float | None = None, agent: str | None = None
    ) -> AsyncGenerator[int, None]:
        if agent is not None:
            names.check_component(agent, kind="member name")
        while True:
            log = await self._open(team)
            with suppress(Gone):
                async with self._following.of(log):
                    while not log.kept.gone:
                        # Taken before the yield, so that no change during it is missed.
                        before = log.kept.concerns(agent)
                        yield log.kept.seq
                        with anyio.move_on_after(every_s):
                            while log.kept.concerns(agent) == before and not log.kept.gone:
                                await log.changed.wait()
            if log.moved_to is None:
                self._drop(team, log)
                if (await self._directory.find(team)).address != log.address:
                    raise no_team(team)
                # Still listed: it was deleted a moment ago, or the servers lost it.

    async def beat(self, team: str, presence: Presence) -> None:
        names.check_component(presence.agent, kind="member name")
        log = await self._known(team)
        if time.monotonic() - log.confirmed > _HEARTBEATS_BELIEVE_S:
            log = await self._open(team)
        await self._beats.put(log.address, presence)

    async def presence(self, team: str) -> Mapping[str, Presence]:
        """Return the last heartbeat of every agent. It is forgotten after two minutes."""
        return await self._beats.all((await self._open(team)).address)

    async def checkup(self, team: str | None, *, fix: bool) -> list[Finding]:
        """Check that the log of a team is complete and that its history gives the team."""
        if team is None:
            return []
        return await examine.examine(await self._open(team))

    async def aclose(self) -> None:
        """Close the connection."""
        await self._following.aclose()
        await self.link.aclose()


def _lost(team: str, address: Address) -> Unavailable:
    return Unavailable(
        f"The servers list team {team!r} but have none of its data in {address.stream}: it was "
        "lost.",
        remedy="Restore a backup of the servers, or delete the team.",
    )
