"""The members connected to one MCP server, and the heartbeats of each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup

from bullpen.app.app import App
from bullpen.doors.mcp.member import BEAT_S, ConnectedMember
from bullpen.doors.mcp.member_tools import ToolSet
from bullpen.doors.mcp.tokens import Grant, Tokens
from bullpen.errors import BullpenError

HTTP_LASTS_S = 900.0
"""How long a member on HTTP counts as connected after its last call: it may be working."""

_GOODBYE_S = 1.5


class ConnectedMembers:
    """The connected members of one server. Use it as a context manager."""

    def __init__(
        self,
        app: App,
        *,
        cwd: str,
        tool_set: ToolSet = "all",
        warn: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._app = app
        self._cwd = cwd
        self._tool_set: ToolSet = tool_set
        self._warn = warn
        self.tokens = Tokens(app.settings.home)
        self._members: dict[str, ConnectedMember] = {}
        self._grants: dict[str, Grant] = {}
        self._group: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._group = await anyio.create_task_group().__aenter__()
        self._group.start_soon(self._tend)
        return self

    async def __aexit__(self, *failure: Any) -> None:
        group = self.group
        group.cancel_scope.cancel()
        with anyio.move_on_after(_GOODBYE_S, shield=True):
            async with anyio.create_task_group() as leaving:
                for member in self._members.values():
                    leaving.start_soon(member.depart, "its program ended")
        await group.__aexit__(*failure)

    @property
    def group(self) -> TaskGroup:
        """The task group for everything that outlives a request."""
        if self._group is None:
            raise RuntimeError("The server is not running.")
        return self._group

    def named(self, name: str, team: str | None) -> ConnectedMember:
        """The only member of a server that serves one program."""
        if name not in self._members:
            self._members[name] = self._new(name, team)
        return self._members[name]

    def with_token(self, grant: Grant) -> ConnectedMember:
        """The member that a token belongs to."""
        if grant.digest not in self._members:
            self._grants[grant.digest] = grant
            self._members[grant.digest] = self._new(
                grant.member,
                grant.team,
                lasts_s=HTTP_LASTS_S,
                left=lambda: self.tokens.revoke(grant.team, grant.member),
            )
        return self._members[grant.digest]

    def _new(
        self,
        name: str,
        team: str | None,
        *,
        lasts_s: float | None = None,
        left: Callable[[], object] = lambda: None,
    ) -> ConnectedMember:
        return ConnectedMember(
            self._app,
            name,
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
            for key, member in list(self._members.items()):
                with suppress(BullpenError):
                    # If the store cannot be written now, the next heartbeat tries again.
                    await self._tend_one(key, member)

    async def _tend_one(self, key: str, member: ConnectedMember) -> None:
        grant = self._grants.get(key)
        if grant is not None and not self.tokens.counts(grant):
            await member.depart("its token was revoked")
            member.notices.stop()
            del self._members[key], self._grants[key]
            return
        await member.tend()
