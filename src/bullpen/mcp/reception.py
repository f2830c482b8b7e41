"""Where connected members are received: who sits where, and that each is known to be there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import TaskGroup

from bullpen.errors import BullpenError
from bullpen.mcp.seat import BEAT_S, Seat
from bullpen.mcp.tokens import Grant, Tokens
from bullpen.mcp.tools import ToolSet
from bullpen.office import Office

HTTP_LASTS_S = 900.0
"""How long a member that came by HTTP counts as there after its last call: it may be at work."""

_GOODBYE_S = 1.5


class Reception:
    """The seats of one server, tended from beginning to end."""

    def __init__(
        self,
        office: Office,
        *,
        cwd: str,
        tool_set: ToolSet = "all",
        warn: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._office = office
        self._cwd = cwd
        self._tool_set: ToolSet = tool_set
        self._warn = warn
        self.tokens = Tokens(office.settings.home)
        self._seats: dict[str, Seat] = {}
        self._grants: dict[str, Grant] = {}
        self._group: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._group = await anyio.create_task_group().__aenter__()
        self._group.start_soon(self._tend)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        group = self.group
        group.cancel_scope.cancel()
        with anyio.move_on_after(_GOODBYE_S, shield=True):
            async with anyio.create_task_group() as leaving:
                for seat in self._seats.values():
                    leaving.start_soon(seat.depart, "its program has gone")
        await group.__aexit__(kind, error, trace)

    @property
    def group(self) -> TaskGroup:
        """Where whatever outlives a request runs."""
        if self._group is None:
            raise RuntimeError("The reception is not open.")
        return self._group

    def seat(self, member: str, team: str | None) -> Seat:
        """The seat of the one member of a server that serves one program."""
        if member not in self._seats:
            self._seats[member] = self._new(member, team)
        return self._seats[member]

    def seat_of(self, grant: Grant) -> Seat:
        """The seat of a member that showed a token."""
        if grant.digest not in self._seats:
            self._grants[grant.digest] = grant
            self._seats[grant.digest] = self._new(
                grant.member,
                grant.team,
                lasts_s=HTTP_LASTS_S,
                left=lambda: self.tokens.revoke(grant.team, grant.member),
            )
        return self._seats[grant.digest]

    def _new(
        self,
        member: str,
        team: str | None,
        *,
        lasts_s: float | None = None,
        left: Callable[[], object] = lambda: None,
    ) -> Seat:
        return Seat(
            self._office,
            member,
            team=team,
            cwd=self._cwd,
            tool_set=self._tool_set,
            lasts_s=lasts_s,
            warn=self._warn,
            left=left,
        )

    async def _tend(self) -> None:
        while True:
            await anyio.sleep(BEAT_S)
            for key, seat in list(self._seats.items()):
                with suppress(BullpenError):
                    # What cannot be written now is tried again with the next beat.
                    await self._tend_one(key, seat)

    async def _tend_one(self, key: str, seat: Seat) -> None:
        grant = self._grants.get(key)
        if grant is not None and not self.tokens.counts(grant):
            await seat.depart("its token was revoked")
            seat.notices.stop()
            del self._seats[key], self._grants[key]
            return
        await seat.tend()
