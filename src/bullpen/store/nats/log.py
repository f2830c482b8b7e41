"""The log of one team: appended to with compare-and-set, folded, read on, made short.

One lock and one fold for all in this process who work with a team: those who would contend wait
for one another instead, and only other hosts can be faster.
"""

from __future__ import annotations

import asyncio
import bisect
import random
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bullpen.errors import Invalid, Unavailable
from bullpen.protocol import jsontext
from bullpen.protocol.changes import Event
from bullpen.store.base import Problem, StoreLimits
from bullpen.store.nats import wire
from bullpen.store.nats.connection import Connection
from bullpen.store.nats.history import History, slices
from bullpen.store.nats.kept import Kept
from bullpen.store.nats.streams import PAYLOAD_MAX
from bullpen.store.nats.subjects import Address
from bullpen.store.nats.wire import ApiError, HeadMoved, NoAnswer, Row

_TRY_S = 2.0
"""How long one request may take. An election takes up to nine seconds, several tries."""

_CONFIRM_S = 3.0
EVENTS_KEPT = 64
"""How many events a log has at least before a snapshot takes their place."""

_TAIL_BYTES_MAX = 256 * 1024
_TOO_LONG = 10054
_LOOKS_AT_REPLICAS = 6


class Gone(Exception):
    """A life of the team is over: it was deleted, and perhaps made again."""


@dataclass(frozen=True, slots=True)
class Line:
    """One message of a log: an event, or the snapshot of everything up to one."""

    raw: dict[str, Any]

    @classmethod
    def parse(cls, data: bytes) -> Line:
        """Raises ValueError."""
        raw = jsontext.loads_line(data)
        if not isinstance(raw, dict) or raw.get("v") != 1:
            raise ValueError("it is of a form that this version does not know")
        return cls(raw)

    @property
    def snapshot(self) -> dict[str, Any] | None:
        """The snapshot, if it is one."""
        return self.raw.get("snapshot")

    @property
    def is_last(self) -> bool:
        """Whether the team was deleted with it."""
        return self.raw.get("gone") is True


class TeamLog:
    """One life of a team, as this process knows it."""

    def __init__(
        self,
        link: Connection,
        address: Address,
        limits: StoreLimits,
        *,
        events_kept: int = EVENTS_KEPT,
    ) -> None:
        self.link = link
        self.address = address
        self.kept = Kept()
        self.head = 0
        self.changed = asyncio.Event()
        self.confirmed = 0.0
        self.in_doubt = False
        self._limits = limits
        self._events_kept = events_kept
        self._lock = asyncio.Lock()
        # The events since the last snapshot as they are stored, the last of them is `kept.seq`.
        self._tail: list[bytes] = []
        self._tail_bytes = 0
        self._snapshot_bytes = 0
        self._ids: dict[int, str] = {}
        self.history = History(link, address)

    # Taking turns

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[float]:
        """Have the team for oneself; gives the moment until which it may take.

        Raises:
            Unavailable: somebody else has it for too long.
        """
        deadline = time.monotonic() + self._limits.lock_wait_s
        try:
            async with asyncio.timeout(self._limits.lock_wait_s):
                await self._lock.acquire()
        except TimeoutError:
            raise Unavailable(
                f"Team {self.address.team!r} is busy: others wait for {self.link.endpoint}.",
                remedy="Try again.",
            ) from None
        try:
            yield deadline
        finally:
            self._lock.release()

    def _wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    # Reading on

    async def confirm(self, *, within_s: float = _CONFIRM_S) -> bool:
        """See that this is where the log is; True if it had gone on.

        Raises:
            Gone: the team was deleted.
            Unavailable: it cannot be known now.
        """
        async with self.turn():
            return await self.confirm_in_turn(time.monotonic() + within_s)

    async def confirm_in_turn(self, deadline: float) -> bool:
        """The same for who has the turn already."""
        before = self.head
        while True:
            try:
                await self._read_on(None, deadline)
                self._refuse_gone()
                return self.head != before
            except NoAnswer as error:
                if time.monotonic() >= deadline:
                    raise self._no_answer(error) from None
                await asyncio.sleep(0.05)

    def _confirm(self, moment: float) -> None:
        self.confirmed, self.in_doubt = moment, False

    def stale(self) -> Problem:
        """What to say if this may not be how the team is now."""
        age = time.monotonic() - self.confirmed
        return Problem(
            str(self.link.endpoint),
            f"no answer; this is how the team was {age:.0f} s ago, and nothing can be changed",
        )

    def _refuse_gone(self) -> None:
        if self.kept.gone:
            raise Gone

    async def _read_on(self, at_least: int | None, deadline: float) -> None:
        """Take in what is new, up to a message or, with None, to the leader's last.

        Raises NoAnswer, Gone, Unavailable (damage).
        """
        asked = time.monotonic()
        if at_least is None:
            await self._read_to_the_end(deadline)
        else:
            await self._read_up_to(at_least, deadline)
        self._confirm(max(self.confirmed, asked))

    async def _read_to_the_end(self, deadline: float) -> None:
        """Read on until a server that most others follow has nothing more."""
        moved_to = 0
        while True:
            head, is_sure = await self._leaders_head(self._try_s(deadline))
            if head == 0:
                self.kept.gone = True
                self._wake()
                raise Gone
            await self._read_up_to(head, deadline)
            # Who leads no more stores nothing more: twice moved, it is led.
            if is_sure or head > moved_to > 0:
                return
            moved_to = head

    async def _read_up_to(self, at_least: int, deadline: float) -> None:
        looks, has_hole = 0, False
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
                # A replica that is behind.
                if time.monotonic() > deadline:
                    raise NoAnswer("the replicas are behind")
                await asyncio.sleep(0.002 * looks)

    async def _rows(self, looks: int, timeout_s: float) -> list[Row]:
        client = await self.link.client()
        if looks < _LOOKS_AT_REPLICAS or self.link.bearer.is_bound:
            reader = await self.link.reader()
            log = self.address.log
            return await reader.rows(self.address.stream, log, self.head + 1, timeout_s=timeout_s)
        ask = {"next_by_subj": self.address.log, "seq": self.head + 1}
        row = await wire.leader_row(client, self.address.stream, ask, timeout_s=timeout_s)
        return [] if row is None else [row]

    async def _leaders_head(self, timeout_s: float) -> tuple[int, bool]:
        """The last message by the word of the leader; and whether it certainly is the leader.

        One that was cut off from the others takes itself for the leader for ten seconds more, and
        would call a log unchanged that has gone on elsewhere.
        """
        client = await self.link.client()
        bearer, stream = self.link.bearer, self.address.stream
        if bearer.reads_only:
            row = await wire.last_row(client, stream, self.address.log, timeout_s=timeout_s)
            return (0 if row is None else row.seq), True
        if bearer.is_bound or not self.link.is_led(stream):
            return await self._ask_all(timeout_s)
        ask = {"last_by_subj": self.address.log}
        row = await wire.leader_row(client, stream, ask, timeout_s=timeout_s)
        return (0 if row is None else row.seq), self.link.is_led(stream)

    async def _ask_all(self, timeout_s: float) -> tuple[int, bool]:
        """Have most of the servers agree that the log is where it is known to be."""
        client, asked = await self.link.client(), time.monotonic()
        try:
            await wire.append(
                client,
                self.address.sync,
                b"",
                expect=self.head,
                expect_on=self.address.log,
                rollup=True,
                timeout_s=timeout_s,
            )
        except HeadMoved as moved:
            if moved.head is None or 0 < moved.head < self.head:
                raise NoAnswer("the head is in doubt") from None
            return moved.head, False
        except ApiError as error:
            raise NoAnswer(str(error)) from None
        self.link.was_led(self.address.stream, asked)
        return self.head, True

    def _take(self, rows: Sequence[Row]) -> None:
        """Fold messages in, oldest first."""
        for row in rows:
            if row.seq > self.head:
                self._take_one(row)
        self._wake()

    def _take_one(self, row: Row) -> None:
        try:
            line = Line.parse(row.data)
            if line.snapshot is not None:
                self._take_snapshot(line.snapshot, len(row.data))
            else:
                event = Event.decode(line.raw)
                if self.kept.seq and line.raw.get("prev") != self.head:
                    raise ValueError(f"it does not follow message {self.head}")
                self.kept.apply(event)
                self._keep_line(event.seq, str(line.raw.get("eid")), row.data)
                self.kept.gone = line.is_last
        except ValueError as error:
            raise Unavailable(
                f"The log of team {self.address.team!r} is damaged at message {row.seq} of"
                f" {self.address.stream}: {error}.",
                remedy="A replica may have lost messages: run `bullpen server check`.",
            ) from None
        self.head = row.seq

    def _take_snapshot(self, snapshot: dict[str, Any], size: int) -> None:
        found = Kept.of_snapshot(snapshot)
        if found.seq > self.kept.seq:
            self.kept = found
        elif found.seq == self.kept.seq:
            self.kept.chunks = found.chunks
        else:
            raise ValueError(f"a snapshot of event {found.seq} after event {self.kept.seq}")
        self._tail, self._tail_bytes, self._snapshot_bytes = [], 0, size

    def _keep_line(self, number: int, eid: str, data: bytes) -> None:
        self._tail.append(data)
        self._tail_bytes += len(data)
        self._ids[number] = eid
        self._ids.pop(number - 256, None)

    def news(self, row: Row) -> bool:
        """Take in a message that the server repeated, if it is the next; False if one is lacking.

        Nothing is taken while somebody has the team for himself: he will find it.
        """
        if row.seq <= self.head:
            return True
        if self._lock.locked() or row.before != self.head or not self.head:
            return False
        self._take([row])
        self._confirm(time.monotonic())
        return True

    # Appending

    async def append(self, event: Event, deadline: float, *, last: bool = False) -> bool:
        """Make the next event durable. The caller has the turn.

        False if somebody else was faster: what he did has been taken in.

        Raises:
            Gone: the team was deleted.
            Invalid: it is too long.
            Unavailable: it could not be stored, or it is not known whether it was.
        """
        eid = secrets.token_hex(8)
        tries, maybe = 0, False
        while True:
            tries += 1
            client = await self.link.client()
            # Made for each try: a snapshot of somebody else may have become the head.
            data = self._line(event, eid, last=last)
            asked = time.monotonic()
            try:
                seq = await wire.append(
                    client,
                    self.address.log,
                    data,
                    expect=self.head,
                    timeout_s=self._try_s(deadline),
                )
            except HeadMoved as moved:
                head = moved.head or None  # A subject without messages: the leader says more.
                if await self._is_taken(event.seq, eid, head, deadline, maybe=maybe):
                    return self._ids.get(event.seq) == eid
                # Right after an own message the server may be wrong about the head for a moment.
                await self._pause(tries, deadline, NoAnswer("the head is in doubt"))
            except NoAnswer as error:
                maybe = True
                await self._pause(tries, deadline, error)
            except ApiError as error:
                await self._refused(error, tries, deadline)
                maybe = True
            else:
                self.link.was_led(self.address.stream, asked)
                self._append_taken(event, eid, seq, data, last=last)
                return True

    def _line(self, event: Event, eid: str, *, last: bool) -> bytes:
        raw = {"v": 1, "eid": eid, "prev": self.head, **event.encode()}
        data = jsontext.dumps_line({**raw, "gone": True} if last else raw)
        if len(data) > PAYLOAD_MAX:
            raise Invalid(
                f"One change of team {self.address.team!r} would have {len(data)} bytes; at most"
                f" {PAYLOAD_MAX} are stored at once.",
                remedy="Do it in several steps, or put the content into files.",
            )
        return data

    def _append_taken(self, event: Event, eid: str, seq: int, data: bytes, *, last: bool) -> None:
        self.kept.apply(event)
        self._keep_line(event.seq, eid, data)
        self.head = seq
        self._confirm(time.monotonic())
        self.kept.gone = last
        self._wake()

    async def _is_taken(
        self, number: int, eid: str, head: int | None, deadline: float, *, maybe: bool
    ) -> bool:
        """Whether the place of an event is taken, be it by itself; False if it is still free."""
        while True:
            try:
                await self._read_on(head, deadline)
                break
            except NoAnswer as error:
                await self._pause(1, deadline, error)
        if self.kept.seq < number:
            return False
        if maybe and number not in self._ids:
            # So much happened since that a snapshot came between.
            (found,) = await self.history.lines(self.kept.chunks, number - 1, 1)
            self._ids[number] = str(jsontext.loads_line(found).get("eid"))
        if self._ids.get(number) != eid:
            self._refuse_gone()
        return True

    async def _pause(self, tries: int, deadline: float, error: NoAnswer) -> None:
        if time.monotonic() >= deadline:
            raise self._no_answer(error, "It is not known whether this was stored.")
        await asyncio.sleep(min(0.5, 0.05 * 2**tries) * random.uniform(0.5, 1.0))

    async def _refused(self, error: ApiError, tries: int, deadline: float) -> None:
        if error.err_code == _TOO_LONG:
            raise Invalid(
                f"The server takes no message of that length: {error.description}.",
                remedy="Put the content into a file, or raise max_payload.",
            ) from None
        if time.monotonic() >= deadline:
            raise Unavailable(
                f"The server could not store a change of team {self.address.team!r}: {error}."
                " It is not known whether an earlier try was stored.",
                remedy="See `bullpen server status`, then try again.",
            ) from None
        await asyncio.sleep(min(0.5, 0.05 * 2**tries))

    def _no_answer(self, error: NoAnswer, known: str = "") -> Unavailable:
        said = f"No answer about team {self.address.team!r} from {self.link.endpoint} ({error})."
        return Unavailable(
            f"{said} {known}".rstrip(), remedy="See `bullpen server status`, then try again."
        )

    def _try_s(self, deadline: float) -> float:
        return max(0.05, min(_TRY_S, deadline - time.monotonic()))

    # Keeping it short

    @property
    def is_long(self) -> bool:
        """Whether it is time for a snapshot."""
        if self._tail_bytes > _TAIL_BYTES_MAX:
            return self._tail_bytes * 4 > self._snapshot_bytes
        return len(self._tail) >= self._events_kept and self._tail_bytes * 2 > self._snapshot_bytes

    async def shorten(self, deadline: float) -> None:
        """Move the events to the history and put a snapshot in their place.

        The caller has the turn. History first: killed in between, events are in both, and a
        reader counts them by number. That it fails is no harm: the log stays long.
        """
        if self.kept.gone:
            return
        client = await self.link.client()
        try:
            await self._store_history(deadline)
            snapshot = {"v": 1, "snapshot": self.kept.snapshot()}
            data = jsontext.dumps_line(snapshot)
            if len(data) > PAYLOAD_MAX:
                return
            seq = await wire.append(
                client,
                self.address.log,
                data,
                expect=self.head,
                rollup=True,
                timeout_s=self._try_s(deadline),
            )
        except (HeadMoved, NoAnswer, ApiError):
            return
        self.head = seq
        self._tail, self._tail_bytes, self._snapshot_bytes = [], 0, len(data)

    async def _store_history(self, deadline: float) -> None:
        first = self.kept.seq - len(self._tail) + 1
        lines = self._tail
        while lines:
            part = next(slices(lines))
            stored = await self.history.store(first, part, timeout_s=self._try_s(deadline))
            if first not in self.kept.chunks:
                bisect.insort(self.kept.chunks, first)
            first, lines = first + stored, lines[stored:]

    async def lines(self, after: int, limit: int | None) -> list[bytes]:
        """The events past a number, as they are stored."""
        first_here = self.kept.seq - len(self._tail) + 1
        wanted = self.kept.seq - after if limit is None else min(limit, self.kept.seq - after)
        if wanted <= 0:
            return []
        tail = list(self._tail)
        found: list[bytes] = []
        if after + 1 < first_here:
            old = min(wanted, first_here - 1 - after)
            found = await self.history.lines(self.kept.chunks, after, old)
        start = max(0, after + 1 - first_here)
        return found + tail[start : start + wanted - len(found)]
