"""The log of one team: append with compare-and-set, replay, read on, shorten.

All users of a team in this process share one lock and one replay: they wait for each other, and
only other hosts can be faster.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from bullpen.errors import Unavailable
from bullpen.protocol import json_text
from bullpen.protocol.changes import Event
from bullpen.protocol.format_version import is_newer, refuse_newer
from bullpen.store.contract import Problem, StoreLimits
from bullpen.store.nats.client import api_requests
from bullpen.store.nats.client.api_requests import ApiError, HeadMoved, NoAnswer, StoredRow
from bullpen.store.nats.client.connection import NatsConnection
from bullpen.store.nats.client.streams import PAYLOAD_MAX
from bullpen.store.nats.client.subjects import Address
from bullpen.store.nats.log import head as heads
from bullpen.store.nats.log.contention import Contention
from bullpen.store.nats.log.history import LogHistory, slices
from bullpen.store.nats.log.packing import known_format, may_append
from bullpen.store.nats.log.refusals import Refusals
from bullpen.store.nats.log.retention import HistoryTrim
from bullpen.store.nats.log.state import LogState
from bullpen.store.nats.log.tail import EVENTS_KEPT, LogTail, TailLine, event_line
from bullpen.store.nats.log.turns import Turns

_TRY_S = 2.0
"""How long one request may take. An election takes up to nine seconds and several tries."""

_CONFIRM_S = 3.0
_HEAR_S = 0.02
_SNAPSHOT_TRIES = 4
_LOOKS_AT_REPLICAS = 6
_UNTIL_SENT = 4  # How often other tasks run until a question has left this process.


class Gone(Exception):
    """The team was deleted, and perhaps created again."""


class TeamLog:
    """One life of a team, as this process knows it."""

    def __init__(
        self,
        link: NatsConnection,
        address: Address,
        limits: StoreLimits,
        *,
        events_kept: int = EVENTS_KEPT,
    ) -> None:
        self.link = link
        self.address = address
        self.kept = LogState()
        self.head = 0
        self._changed: asyncio.Event | None = None
        self.confirmed = 0.0
        # At some moment not before this one, the log was exactly here.
        self.certain = 0.0
        self.in_doubt = False
        self.moved_to: int | None = None
        # Why the servers store nothing; empty if they do.
        self._refusal = ""
        # What the server repeats, if somebody listens; kept while somebody has the turn.
        self.is_followed = False
        self._heard: list[StoredRow] = []
        self._hears = asyncio.Event()
        self._tail = LogTail(events_kept)
        self._contention = Contention()
        self.history = LogHistory(link, address)
        self._trim = HistoryTrim(link, address, self.history)
        self._refusals = Refusals(link, address)
        self._turns = Turns(limits.lock_wait_s, busy=self.busy, ended=self._take_heard)

    # Turns

    def turn(self) -> Turns:
        """Take the turn at the team; yields its deadline. Raises Unavailable if it is busy."""
        return self._turns

    def busy(self) -> Unavailable:
        """Return the error of a call that waited too long for others."""
        return self._refusals.busy()

    @property
    def changed(self) -> asyncio.Event:
        """Return what is set at the next change."""
        if self._changed is None:
            self._changed = asyncio.Event()
        return self._changed

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    # Reading

    async def confirm(self, *, within_s: float = _CONFIRM_S) -> bool:
        """Make sure that this is where the log is. True if it went on. Raises Gone, Unavailable."""
        async with self.turn():
            return await self.confirm_in_turn(time.monotonic() + within_s)

    async def confirm_in_turn(self, deadline: float) -> bool:
        """Like `confirm`, for a caller that already has the turn."""
        before = self.head
        while True:
            try:
                await self._read_on(None, deadline)
                self._refuse_gone()
                return self.head != before
            except NoAnswer as error:
                if time.monotonic() >= deadline:
                    raise self._refusals.no_answer(error) from None
                await asyncio.sleep(0.05)

    def _confirm(self, moment: float) -> None:
        self.confirmed, self.in_doubt = moment, False

    def doubts(self) -> tuple[Problem, ...]:
        """Return the warning for a team that may have changed since, if it may."""
        if self._refusal and not self.in_doubt:
            why = f"{self.address.stream} has no room ({self._refusal}), so nothing can be changed"
            return (Problem(str(self.link.endpoint), why),)
        if not self.in_doubt:
            return ()
        age = time.monotonic() - self.confirmed
        why = f"no answer; this is the team as it was {age:.0f} s ago, and nothing can be changed"
        return (Problem(str(self.link.endpoint), why),)

    def _refuse_gone(self) -> None:
        if self.kept.gone:
            raise Gone

    async def _read_on(self, at_least: int | None, deadline: float) -> None:
        """Read up to a message; None is the last one. Raises NoAnswer, Gone, Unavailable."""
        asked = time.monotonic()
        if at_least is None:
            await self._read_to_the_end(deadline)
        else:
            await self._read_up_to(at_least, deadline)
        self._confirm(max(self.confirmed, asked))
        self.certain = asked

    async def _read_to_the_end(self, deadline: float) -> None:
        """Read until a server that a majority follows has nothing more."""
        found = None if self.head else await self._load(deadline)
        moved_to = 0
        while True:
            if found is None:
                found = await heads.ask(
                    self.link, self.address, self.head, timeout_s=self._try_s(deadline)
                )
            head, self._refusal = found.seq, found.refusal
            if head == 0:
                self.kept.gone = True
                self._wake()
                raise Gone
            await self._read_up_to(head, deadline)
            # A server that no longer leads stores nothing: if the head moved twice, it leads.
            if found.is_sure or head > moved_to > 0:
                return
            moved_to, found = head, None

    async def _load(self, deadline: float) -> heads.LogEnd | None:
        """Read a log for the first time. Most probably a replica has everything.

        While it is applied, the servers answer whether that was the end.
        """
        rows: Sequence[StoredRow] = ()
        with suppress(Unavailable):
            rows = await self._rows(1, self._try_s(deadline))
        if not rows:
            return None
        wait_s = self._try_s(deadline)
        ask = heads.ask(self.link, self.address, rows[-1].seq, timeout_s=wait_s)
        asking = asyncio.create_task(ask)
        try:
            for _ in range(_UNTIL_SENT):
                await asyncio.sleep(0)
            with suppress(Unavailable):
                self._take(rows)
            return await asking
        finally:
            asking.cancel()

    async def _read_up_to(self, at_least: int, deadline: float) -> None:
        looks, has_hole = 0, False
        await self._hear(at_least)
        while self.head < at_least:
            looks += 1
            rows = await self._rows(looks, self._try_s(deadline))
            try:
                self._take(rows)
            except Unavailable:
                # One of many may have been lost on the way: the leader is asked for each.
                if has_hole:
                    raise
                looks, has_hole = max(looks, _LOOKS_AT_REPLICAS), True
            if not rows:
                # A replica that is outdated, or the team was deleted and purged since.
                if looks > 2 * _LOOKS_AT_REPLICAS or time.monotonic() > deadline:
                    raise NoAnswer("the replicas are outdated")
                await asyncio.sleep(0.002 * looks)

    async def _rows(self, looks: int, timeout_s: float) -> list[StoredRow]:
        client = await self.link.client()
        if looks < _LOOKS_AT_REPLICAS or not self.link.bearer.asks_leaders:
            reader = await self.link.reader()
            log = self.address.log
            return await reader.rows(self.address.stream, log, self.head + 1, timeout_s=timeout_s)
        ask = {"next_by_subj": self.address.log, "seq": self.head + 1}
        row = await api_requests.leader_row(client, self.address.stream, ask, timeout_s=timeout_s)
        return [] if row is None else [row]

    def _take(self, rows: Sequence[StoredRow]) -> None:
        """Apply messages, oldest first."""
        fresh = [row for row in rows if row.seq > self.head]
        for row in fresh:
            self._take_one(row)
        if fresh:
            self._wake()

    def _take_one(self, row: StoredRow) -> None:
        try:
            texts = row.data.split(b"\n")
            lines = [TailLine.parse(text) for text in texts]
            last = lines[-1]
            if last.snapshot is not None:
                self._take_snapshot(last.snapshot, last.tail, len(row.data))
            else:
                self._take_events(lines, texts)
                self.kept.gone, self.moved_to = last.is_last, last.moved_to
        except ValueError as error:
            raise Unavailable(
                f"The log of team {self.address.team!r} is damaged at message {row.seq} of"
                f" {self.address.stream}: {error}.",
                remedy="A replica may have lost messages. Run `bullpen server check`.",
            ) from None
        self.head = row.seq
        self._contention.lost()

    def _take_events(self, lines: Sequence[TailLine], texts: Sequence[bytes]) -> None:
        events = [Event.decode(line.raw) for line in lines]
        if self.kept.seq and lines[0].raw.get("prev") != self.head:
            raise ValueError(f"it does not follow message {self.head}")
        first = events[0].seq
        if [event.seq for event in events] != list(range(first, first + len(events))):
            raise ValueError("an event is missing in it")
        for event, line, text in zip(events, lines, texts, strict=True):
            self.kept.apply(event)
            self.kept.learn_format(line.raw)
            self._tail.add(event.seq, str(line.raw.get("eid")), text)

    def _take_snapshot(self, snapshot: dict[str, Any], tail: list[bytes], size: int) -> None:
        found = LogState.of_snapshot(snapshot)
        if found.seq > self.kept.seq:
            self.kept = found
        elif found.seq == self.kept.seq:
            self.kept.adopt(found)
        else:
            raise ValueError(f"a snapshot of event {found.seq} after event {self.kept.seq}")
        self._tail.shortened(tail, found.seq, size)

    def news(self, row: StoredRow) -> bool:
        """Apply a message that the server repeated, if it is the next; False if one is missing.

        A caller that has the turn applies it when it reads on, or when it is done.
        """
        if row.seq <= self.head:
            return True
        last_heard = self._heard[-1].seq if self._heard else 0
        if not self.head or row.before != max(self.head, last_heard):
            return False
        self._heard.append(row)
        if self._turns.is_taken:
            self._hears.set()
        else:
            self._take_heard()
            self._confirm(time.monotonic())
        return True

    def _take_heard(self) -> None:
        if not self._heard:
            return
        rows, self._heard = self._heard, []
        # A damaged message is noticed when it is read.
        with suppress(Unavailable):
            self._take(rows)

    async def _hear(self, at_least: int) -> None:
        """Wait a moment for what the server is about to repeat: sooner than it can be read."""
        self._take_heard()
        with suppress(TimeoutError):
            async with asyncio.timeout(_HEAR_S if self.is_followed else 0):
                while self.head < at_least:
                    self._hears.clear()
                    await self._hears.wait()
                    self._take_heard()

    # Appending

    async def append(
        self,
        events: Sequence[Event],
        deadline: float,
        *,
        last: bool = False,
        moved_to: int | None = None,
    ) -> bool:
        """Make the next event durable, or several in one message. The caller has the turn.

        After the `last` one there is no more here; the team may go on in another partition.
        False if another host was faster; its events have been applied. Raises Gone, Invalid if it
        is too long, and Unavailable if it could not be stored or it is unknown whether it was.
        """
        eid, number = secrets.token_hex(8), events[0].seq
        more: dict[str, object] = {"gone": True} if last else {}
        more |= {} if moved_to is None else {"moved_to": moved_to}
        tries, maybe = 0, False
        while True:
            tries += 1
            client = self.link.open_client or await self.link.client()
            # Built for each attempt: another host's snapshot may have become the head.
            lines = self._lines(events, eid, more)
            asked = time.monotonic()
            try:
                seq = await api_requests.append(
                    client,
                    self.address.log,
                    b"\n".join(lines),
                    expect=self.head,
                    timeout_s=self._try_s(deadline),
                )
            except HeadMoved as moved:
                head = moved.head or None  # A subject without messages: the leader says more.
                if await self._is_taken(number, eid, head, deadline, maybe=maybe):
                    return self._tail.id_of(number) == eid
                # Right after its own message, the server may be wrong about the head for a moment.
                await self._pause(tries, deadline, NoAnswer("the head is uncertain"))
            except NoAnswer as error:
                maybe = True
                await self._pause(tries, deadline, error)
            except ApiError as error:
                await self._refused(error, tries, deadline, maybe=maybe)
                maybe = True
            else:
                self._refusal = ""
                self.link.was_led(self.address.stream, asked)
                self.certain = asked
                for event, line in zip(events, lines, strict=True):
                    self.kept.apply(event)
                    self._tail.add(event.seq, eid, line)
                self._append_taken(seq, last=last)
                return True

    def _lines(self, events: Sequence[Event], eid: str, more: Mapping[str, object]) -> list[bytes]:
        version, alone = self.kept.format, len(events) == 1
        if not may_append(version):
            refuse_newer(f"Team {self.address.team!r}", version, known_format(version))
        lines = [event_line(each, eid, self.head, version, more, alone=alone) for each in events]
        if (size := sum(map(len, lines)) + len(lines)) > PAYLOAD_MAX:
            raise self._refusals.too_long(size)
        return lines

    def _append_taken(self, seq: int, *, last: bool) -> None:
        self.head = seq
        self._contention.won()
        self._confirm(time.monotonic())
        self.kept.gone = last
        self._wake()

    async def _is_taken(
        self, number: int, eid: str, head: int | None, deadline: float, *, maybe: bool
    ) -> bool:
        """Return whether an event's place is taken, perhaps by itself; False if it is free."""
        if head is None:
            await self._hear(self.head + 1)
        while self.kept.seq < number:
            try:
                await self._read_on(head, deadline)
                break
            except NoAnswer as error:
                await self._pause(1, deadline, error)
                head = None
        if self.kept.seq < number:
            return False
        found = self._tail.id_of(number)
        if maybe and found is None:
            # So much has happened that there is a snapshot in between.
            (line,) = await self.history.lines(self.kept.parts, number - 1, 1)
            found = self._tail.learned(number, line)
        if found != eid:
            self._refuse_gone()
        return True

    async def stand_back(self, times_lost: int) -> None:
        """Leave the log to other hosts until they pause."""
        await self._contention.silence(times_lost, self._hears, self._heard_head)

    async def let_others(self) -> None:
        """Leave the log to other hosts for a moment, if it is time to."""
        if self._contention.is_due:
            await self._contention.let_others()
        self._take_heard()

    def _heard_head(self) -> int:
        self._take_heard()
        return self.head

    async def _pause(self, tries: int, deadline: float, error: NoAnswer) -> None:
        if time.monotonic() >= deadline:
            raise self._refusals.no_answer(error, "It is unknown whether the change was stored.")
        await asyncio.sleep(min(0.5, 0.05 * 2**tries) * random.uniform(0.5, 1.0))

    async def _refused(self, error: ApiError, tries: int, deadline: float, *, maybe: bool) -> None:
        late = time.monotonic() >= deadline
        if (final := self._refusals.final(error, maybe=maybe, late=late)) is not None:
            raise final from None
        await asyncio.sleep(min(0.5, 0.05 * 2**tries))

    def _try_s(self, deadline: float) -> float:
        return max(0.05, min(_TRY_S, deadline - time.monotonic()))

    # Shortening

    @property
    def is_long(self) -> bool:
        """Return whether it is time for a snapshot."""
        return self._tail.is_long

    async def shorten(self, deadline: float) -> None:
        """Move the events to the history and put a snapshot in their place.

        The caller has the turn. History comes first: if the process is killed in between, events
        are in both, and a reader counts them by number. A failure does no harm: the log stays long.
        """
        if self.kept.gone or is_newer(self.kept.format, known_format(self.kept.format)):
            # A snapshot of this version would leave out what only the newer one knows.
            return
        try:
            await self._store_history(deadline)
            await self._trim.cut(self.kept)
            for _ in range(_SNAPSHOT_TRIES):
                if await self._put_snapshot(deadline):
                    return
            self._tail.put_off()
        except (Gone, NoAnswer, ApiError, Unavailable):
            return

    async def _store_history(self, deadline: float) -> None:
        while lines := self._tail.not_in_history:
            first = self.kept.seq - len(lines) + 1
            part = next(slices(lines))
            self._tail.in_history += await self.history.store(
                self.kept, first, part, timeout_s=self._try_s(deadline)
            )

    async def _put_snapshot(self, deadline: float) -> bool:
        """Put a snapshot at the head; False if others wrote meanwhile and it may be tried again.

        It brings along what they wrote after the history was stored.
        """
        self._take_heard()
        tail = self._tail.not_in_history
        raw = {"v": 1, "snapshot": self.kept.snapshot(), "tail": [line.decode() for line in tail]}
        data = json_text.dumps_line(raw)
        if len(data) > PAYLOAD_MAX:
            return True
        client = await self.link.client()
        try:
            self.head = await api_requests.append(
                client,
                self.address.log,
                data,
                expect=self.head,
                rollup=True,
                timeout_s=self._try_s(deadline),
            )
        except HeadMoved as moved:
            await self._read_on(moved.head or None, deadline)
            # Perhaps by another host's snapshot.
            return not self._tail.is_long
        self._tail.shortened(tail, self.kept.seq, len(data))
        await self._trim.free(self.kept)
        return True

    async def lines(self, after: int, limit: int | None) -> list[bytes]:
        """Return the events after a number, as they are stored."""
        return await self.history.read(self.kept, list(self._tail.lines), after, limit)
