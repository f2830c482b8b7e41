"""The queue of agents that wait for a host.

A request is one message, and who took it is another, written with compare-and-set. There is no
consumer: its configuration would name a subject of the streams' account, which no key may choose.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from bullpen.agents.supervisor.machines.host_records import HostSpawn
from bullpen.protocol import json_text
from bullpen.store.nats.client import api_requests
from bullpen.store.nats.client.api_requests import ApiError, HeadMoved, NoAnswer, StoredRow
from bullpen.store.nats.client.connection import NatsConnection
from bullpen.store.nats.client.subjects import STARTS_STREAM

HELD_S = 60
"""How long a request is held for the host that took it, unless it says that it is still at it."""

_TRY_S = 5.0
_LATER_S = 5
_TRIES_MAX = 5
_DONE_S = 60
"""How long it is remembered that a request is done, against one that is placed twice."""


@dataclass(frozen=True, slots=True)
class QueuedSpawn:
    """A spawn request that this host took, until it reports the result."""

    request: HostSpawn
    done: Callable[[], Awaitable[None]]
    still_at_it: Callable[[], Awaitable[None]]
    give_back: Callable[[], Awaitable[None]]


@dataclass(slots=True)
class _Claim:
    """Who has a request, as the last message about it says."""

    link: NatsConnection
    subject: str
    seq: int = 0
    tries: int = 0
    # For how long it is held, from when it was written.
    for_s: float = 0.0
    is_done: bool = False

    @classmethod
    def of(cls, link: NatsConnection, row: StoredRow) -> _Claim:
        raw: dict[str, Any] = json_text.loads(row.data)
        return cls(
            link,
            row.subject,
            row.seq,
            int(raw.get("tries", 0)),
            float(raw.get("for_s", HELD_S)),
            raw.get("done") is True,
        )

    @property
    def may_be_taken(self) -> bool:
        """Return whether any host may take the request when it is no longer held."""
        return not self.is_done and self.tries < _TRIES_MAX

    async def write(self, *, for_s: float, tries: int, done: bool = False) -> bool:
        """Change it unless another host did. Returns whether it did. Raises NoAnswer."""
        # Hosts of earlier versions compare `until_s` with their own clock.
        until_s = time.time() + for_s
        raw: dict[str, object] = {"for_s": for_s, "until_s": until_s, "tries": tries, "done": done}
        self.seq = 0 if (seq := await self._stored(raw, done=done)) is None else seq
        if self.seq:
            self.tries, self.for_s, self.is_done = tries, for_s, done
        return self.seq > 0

    async def _stored(self, raw: dict[str, object], *, done: bool) -> int | None:
        try:
            return await api_requests.append(
                await self.link.client(),
                self.subject,
                json_text.dumps_line(raw),
                expect=self.seq,
                ttl_s=2 * _DONE_S if done else None,
                timeout_s=_TRY_S,
            )
        except HeadMoved:
            return None
        except ApiError as error:
            raise NoAnswer(str(error)) from None


class SpawnQueue:
    """Requests by pool. Each is given to one host at a time, and again if that host dies."""

    def __init__(self, link: NatsConnection) -> None:
        self._link = link
        # The last message about each claim, and when this host first saw it: the clocks of two
        # hosts may differ, so nobody's wall clock says how old it is.
        self._seen: dict[str, tuple[int, float]] = {}

    def _is_free(self, claim: _Claim) -> bool:
        """Return whether any host may take the request now."""
        now = time.monotonic()
        seq, since = self._seen.get(claim.subject, (0, 0.0))
        if seq != claim.seq:
            since = now
            self._seen[claim.subject] = (claim.seq, since)
        return claim.may_be_taken and (claim.seq == 0 or now - since >= claim.for_s)

    async def pools(self) -> list[str]:
        """Return the pools in which requests wait. Raises NoAnswer, Unavailable."""
        waiting = await self._rows("start.>")
        return [*dict.fromkeys(row.subject.split(".")[1] for row in waiting)]

    async def peek(self, pool: str) -> HostSpawn | None:
        """Return a request of a pool, to see which labels it asks for."""
        waiting = await self._rows(f"start.{pool}.*")
        return next(filter(None, (_request(row.data) for row in waiting)), None)

    async def take(self, pool: str) -> QueuedSpawn | None:
        """Return the next request of a pool; None if there is none. Raises NoAnswer."""
        waiting = await self._rows(f"start.{pool}.*")
        if not waiting:
            return None
        keys = {row.subject.removeprefix("start.") for row in waiting}
        self._seen = {
            subject: seen
            for subject, seen in self._seen.items()
            if subject.split(".")[1] != pool or subject.removeprefix("took.") in keys
        }
        claims = {
            row.subject.removeprefix("took."): _Claim.of(self._link, row)
            for row in await self._rows(f"took.{pool}.*")
        }
        for row in waiting:
            key = row.subject.removeprefix("start.")
            claim = claims.get(key) or _Claim(self._link, f"took.{key}")
            if self._is_free(claim) and await claim.write(for_s=HELD_S, tries=claim.tries + 1):
                request = _request(row.data)
                if request is not None:
                    return self._queued(request, row, claim)
                await self._done(row, claim)
        return None

    def _queued(self, request: HostSpawn, row: StoredRow, claim: _Claim) -> QueuedSpawn:
        async def done() -> None:
            await self._done(row, claim)

        async def still_at_it() -> None:
            await claim.write(for_s=HELD_S, tries=claim.tries)

        async def give_back() -> None:
            await claim.write(for_s=_LATER_S, tries=claim.tries)

        return QueuedSpawn(request, done=done, still_at_it=still_at_it, give_back=give_back)

    async def _done(self, row: StoredRow, claim: _Claim) -> None:
        if not await claim.write(for_s=0, tries=claim.tries, done=True):
            # Another host took it meanwhile, and reports the result.
            return
        try:
            await api_requests.append(
                await self._link.client(),
                row.subject,
                b"",
                expect=row.seq,
                ttl_s=_DONE_S,
                timeout_s=_TRY_S,
            )
        except (HeadMoved, ApiError) as error:
            raise NoAnswer(str(error)) from None

    async def _rows(self, subject: str) -> list[StoredRow]:
        reader = await self._link.reader()
        rows = await reader.rows(STARTS_STREAM, subject, 1, timeout_s=_TRY_S)
        return [row for row in rows if row.data]


def _request(data: bytes) -> HostSpawn | None:
    try:
        return HostSpawn.parse(json_text.loads(data))
    except ValueError:
        return None
