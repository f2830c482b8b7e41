"""The directory of teams and where they are: one small entry each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from bullpen.errors import Unavailable
from bullpen.protocol import json_text
from bullpen.protocol.format_version import version_in
from bullpen.store.nats.client import api_requests, subjects
from bullpen.store.nats.client.api_requests import (
    ApiError,
    HeadMoved,
    NoAnswer,
    NoStream,
    StoredRow,
)
from bullpen.store.nats.client.connection import NatsConnection
from bullpen.store.nats.client.subjects import Address
from bullpen.store.nats.log.packing import known_format

T = TypeVar("T")

_TRY_S = 2.0
_PATIENCE_S = 12.0
_SECOND_LOOK_S = 0.3
_LEADERLESS_S = 1.0


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """The directory's entry for a name: where the team is, or None; and in which message."""

    address: Address | None
    revision: int


class Directory:
    """The entries of all teams of a cell."""

    def __init__(self, link: NatsConnection) -> None:
        self._link = link
        self._cell_record: dict[str, Any] | None = None

    async def find(self, team: str, *, look_twice: bool = True) -> DirectoryEntry:
        """Return what is known of a name. Raises Unavailable.

        A client that can only ask a replica, which may be outdated, looks twice before it reports
        nothing.
        """
        key = subjects.team_key(team)
        row = await self._patiently(lambda: self._look(key, look_twice=look_twice))
        return DirectoryEntry(None, 0) if row is None else DirectoryEntry(_address(row), row.seq)

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        """Repeat what got no answer. Raises Unavailable if there is none for too long."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return await work()
            except (NoAnswer, ApiError) as error:
                await self._again(deadline, error)

    async def _look(self, key: str, *, look_twice: bool = False) -> StoredRow | None:
        client = await self._link.client()
        stream = subjects.DIRECTORY_STREAM
        if self._link.bearer.asks_leaders:
            ask = {"last_by_subj": key}
            return await api_requests.leader_row(client, stream, ask, timeout_s=_TRY_S)
        row = await api_requests.last_row(client, stream, key, timeout_s=_TRY_S)
        if row is None and look_twice:
            await asyncio.sleep(_SECOND_LOOK_S)
            row = await api_requests.last_row(client, stream, key, timeout_s=_TRY_S)
        return row

    async def place(self, team: str, uid: str) -> Address:
        """Return where a new team goes. Raises Unavailable if this is not a Bullpen cell."""
        row = await self._patiently(lambda: self._look(subjects.place_key(team)))
        if row is not None and row.data:
            return Address(team, int(json_text.loads(row.data)["p"]), uid)
        partitions = int((await self._cell())["partitions"])
        return Address(team, subjects.partition_for(team, partitions), uid)

    async def new_format(self) -> str:
        """Return the format for the log of a new team: the newest that all hosts here know."""
        return known_format(version_in(await self._cell()))

    async def _cell(self) -> dict[str, Any]:
        if self._cell_record is None:
            row = await self._patiently(lambda: self._look(subjects.CELL_KEY))
            if row is None:
                raise self._not_prepared()
            self._cell_record = json_text.loads(row.data)
        return self._cell_record

    async def enter(self, address: Address, expect: int) -> bool:
        """Add a team, if the last entry of its name is still the expected one."""
        raw = {"name": address.team, "p": address.partition, "uid": address.uid}
        return await self._write(address.team, json_text.dumps_line(raw), expect)

    async def remove(self, team: str, expect: int) -> bool:
        """Remove a team, under the same condition."""
        return await self._write(team, b"", expect)

    async def _write(self, team: str, data: bytes, expect: int) -> bool:
        key = subjects.team_key(team)
        while True:
            is_written = await self._patiently(lambda: self._try_to_write(key, data, expect))
            if is_written is not None:
                return is_written

    async def _try_to_write(self, key: str, data: bytes, expect: int) -> bool | None:
        """Return whether the entry is written; None if it is to be tried again."""
        client = await self._link.client()
        try:
            await api_requests.append(client, key, data, expect=expect, timeout_s=_TRY_S)
        except HeadMoved:
            # Perhaps by an earlier attempt of this call whose answer was lost.
            row = await self._look(key)
            if row is not None and row.seq == expect:
                return None
            return row is not None and row.data == data and bool(data)
        return True

    async def _again(self, deadline: float, error: NoAnswer | ApiError) -> None:
        if time.monotonic() > deadline:
            raise Unavailable(
                f"{self._link.endpoint} did not answer about its teams ({error}).",
                remedy="Check `bullpen server status`, then try again.",
            ) from None
        if isinstance(error, NoStream):
            waited_s = time.monotonic() - (deadline - _PATIENCE_S)
            if error.certain or waited_s > _LEADERLESS_S:
                raise self._not_prepared() from None
        await asyncio.sleep(0.1)

    def _not_prepared(self) -> Unavailable:
        return Unavailable(
            f"{self._link.endpoint} is not prepared for Bullpen, or has no leader at the moment.",
            remedy="Prepare it with `bullpen server prepare`, and check `bullpen server status`.",
        )

    async def names(self) -> list[str]:
        """Return all names in it, sorted. Raises Unavailable."""
        if self._link.bearer.is_bound:
            known = [subjects.name_of(tag) for tag in self._link.bearer.teams]
            found = [(name, (await self.find(name)).address) for name in known]
            return sorted(name for name, address in found if address is not None)
        return await self._patiently(self._names)

    async def _names(self) -> list[str]:
        deadline = time.monotonic() + _PATIENCE_S
        client, reader = await self._link.client(), await self._link.reader()
        stream, keys = subjects.DIRECTORY_STREAM, subjects.TEAM_KEYS
        last = None
        if self._link.bearer.asks_leaders:
            last = await api_requests.leader_row(
                client, stream, {"last_by_subj": keys}, timeout_s=_TRY_S
            )
        while True:
            rows = await reader.rows(stream, keys, 1, timeout_s=_TRY_S)
            reached = rows[-1].seq if rows else 0
            if last is None or reached >= last.seq:
                return sorted(
                    address.team for row in rows if (address := _address(row)) is not None
                )
            if time.monotonic() > deadline:
                raise NoAnswer("the replicas are outdated")
            await asyncio.sleep(0.01)


def _address(row: StoredRow) -> Address | None:
    """Return where the team of an entry is; None if the entry says that there is none."""
    if not row.data:
        return None
    raw = json_text.loads(row.data)
    return Address(str(raw["name"]), int(raw["p"]), str(raw["uid"]))
