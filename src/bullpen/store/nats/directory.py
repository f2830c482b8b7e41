"""Which teams there are, and where: one small entry each."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from bullpen.errors import Unavailable
from bullpen.protocol import jsontext
from bullpen.store.nats import subjects, wire
from bullpen.store.nats.connection import Connection
from bullpen.store.nats.subjects import Address
from bullpen.store.nats.wire import ApiError, HeadMoved, NoAnswer, Row

_TRY_S = 2.0
_PATIENCE_S = 12.0
_SECOND_LOOK_S = 0.3
_NO_STREAM = "10059"


@dataclass(frozen=True, slots=True)
class Entry:
    """What the directory says of a name: where the team is, or None; and in which message."""

    address: Address | None
    revision: int


class Directory:
    """The entries of all teams of a cell."""

    def __init__(self, link: Connection) -> None:
        self._link = link
        self._partitions: int | None = None

    async def find(self, team: str, *, look_twice: bool = True) -> Entry:
        """What is known of a name. Raises Unavailable.

        Whoever can only ask a replica, which may be behind, looks twice before he finds nothing.
        """
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                row = await self._look(subjects.team_key(team), look_twice=look_twice)
                return Entry(None if row is None else _address(row), 0 if row is None else row.seq)
            except NoAnswer as error:
                await self._again(deadline, error)

    async def _look(self, key: str, *, look_twice: bool = False) -> Row | None:
        client = await self._link.client()
        stream = subjects.DIRECTORY_STREAM
        if self._link.bearer.asks_leaders:
            ask = {"last_by_subj": key}
            return await wire.leader_row(client, stream, ask, timeout_s=_TRY_S)
        row = await wire.last_row(client, stream, key, timeout_s=_TRY_S)
        if row is None and look_twice:
            await asyncio.sleep(_SECOND_LOOK_S)
            row = await wire.last_row(client, stream, key, timeout_s=_TRY_S)
        return row

    async def place(self, team: str, uid: str) -> Address:
        """Where a new life of a team goes. Raises Unavailable if this is no cell of ours."""
        if self._partitions is None:
            self._partitions = await self._ask_partitions()
        return Address(team, subjects.partition_for(team, self._partitions), uid)

    async def _ask_partitions(self) -> int:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                row = await self._look(subjects.CELL_KEY)
                break
            except NoAnswer as error:
                await self._again(deadline, error)
        if row is None:
            raise self._not_prepared()
        return int(jsontext.loads(row.data)["partitions"])

    async def enter(self, address: Address, expect: int) -> bool:
        """Make a team known, if its name's last entry is still the one expected."""
        raw = {"name": address.team, "p": address.partition, "uid": address.uid}
        return await self._write(address.team, jsontext.dumps_line(raw), expect)

    async def remove(self, team: str, expect: int) -> bool:
        """Forget a team, likewise."""
        return await self._write(team, b"", expect)

    async def _write(self, team: str, data: bytes, expect: int) -> bool:
        key = subjects.team_key(team)
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                is_written = await self._try_to_write(key, data, expect)
                if is_written is not None:
                    return is_written
            except (NoAnswer, ApiError) as error:
                await self._again(deadline, error)

    async def _try_to_write(self, key: str, data: bytes, expect: int) -> bool | None:
        """Whether the entry is this one now; None if that is to be tried again."""
        client = await self._link.client()
        try:
            await wire.append(client, key, data, expect=expect, timeout_s=_TRY_S)
        except HeadMoved:
            # Perhaps by an earlier try of this call whose answer was lost.
            row = await self._look(key)
            if row is not None and row.seq == expect:
                return None
            return row is not None and row.data == data and bool(data)
        return True

    async def _again(self, deadline: float, error: NoAnswer | ApiError) -> None:
        if time.monotonic() > deadline:
            raise Unavailable(
                f"No answer from {self._link.endpoint} about its teams ({error}).",
                remedy="See `bullpen server status`, then try again.",
            ) from None
        if _NO_STREAM in str(error):
            raise self._not_prepared() from None
        if "NoResponders" in str(error) and time.monotonic() > deadline - _PATIENCE_S + 1.0:
            raise self._not_prepared() from None
        await asyncio.sleep(0.1)

    def _not_prepared(self) -> Unavailable:
        return Unavailable(
            f"{self._link.endpoint} is not prepared for Bullpen, or has no leader now.",
            remedy="Prepare it with `bullpen server prepare`; see `bullpen server status`.",
        )

    async def names(self) -> list[str]:
        """All names in it, sorted. Raises Unavailable."""
        if self._link.bearer.is_bound:
            known = [subjects.name_of(tag) for tag in self._link.bearer.teams]
            found = [(name, (await self.find(name)).address) for name in known]
            return sorted(name for name, address in found if address is not None)
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return await self._names(deadline)
            except NoAnswer as error:
                await self._again(deadline, error)

    async def _names(self, deadline: float) -> list[str]:
        client, reader = await self._link.client(), await self._link.reader()
        stream, keys = subjects.DIRECTORY_STREAM, subjects.TEAM_KEYS
        last = None
        if self._link.bearer.asks_leaders:
            last = await wire.leader_row(client, stream, {"last_by_subj": keys}, timeout_s=_TRY_S)
        while True:
            rows = await reader.rows(stream, keys, 1, timeout_s=_TRY_S)
            reached = rows[-1].seq if rows else 0
            if last is None or reached >= last.seq:
                return sorted(
                    address.team for row in rows if (address := _address(row)) is not None
                )
            if time.monotonic() > deadline:
                raise NoAnswer("the replicas are behind")
            await asyncio.sleep(0.01)


def _address(row: Row) -> Address | None:
    """Where the team of an entry is; None if the entry says that there is none."""
    if not row.data:
        return None
    raw = jsontext.loads(row.data)
    return Address(str(raw["name"]), int(raw["p"]), str(raw["uid"]))
