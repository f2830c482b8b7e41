"""The host process's socket: local agents connect, each identified by its token."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from bullpen.errors import Refused
from bullpen.store.contract import Store, StoreLimits
from bullpen.store.hosted.host_session import Asked, HostSession, Operate, OperationCall, SharedHost
from bullpen.store.hosted.outcomes import Outcomes
from bullpen.store.hosted.socket import PrivatePlace, is_own_process
from bullpen.store.hosted.team_session import TeamSession
from bullpen.store.hosted.tokens import Identify, TokenIdentity

LEASE_S = 2.0
_SESSIONS_MAX = 256
_READ_AHEAD = 1024 * 1024


class HostServer:
    """Gives local processes access to a store until `aclose`. Does not own the store."""

    def __init__(
        self,
        store: Store,
        path: str,
        identities: Identify,
        *,
        limits: StoreLimits | None = None,
        lease_s: float = LEASE_S,
        asked: Asked | None = None,
        operate: Operate | None = None,
        exact: Store | None = None,
    ) -> None:
        """`exact` is the same store for the operator, if `store` may answer from what it knows."""
        self._place = PrivatePlace(path)
        self._limits, self._lease_s = limits or StoreLimits(), lease_s
        self._sessions: OrderedDict[str, TeamSession] = OrderedDict()
        self._shared = SharedHost(
            store=store,
            exact=exact or store,
            identities=identities,
            outcomes=Outcomes(),
            session=self._session,
            forget_team=self._forget_team,
            asked=asked or _nothing_else,
            operate=operate or _no_operations,
        )
        self._listening: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def open(self) -> None:
        """Listen. Raises Conflict, Refused (not_private) and Unavailable."""
        listening = self._place.open()
        self._listening = await asyncio.start_unix_server(
            self._serve, sock=listening, limit=_READ_AHEAD
        )

    async def aclose(self) -> None:
        """Accept no more connections. Calls that change something are finished first."""
        if self._listening is not None:
            self._listening.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._shared.outcomes.aclose()
        self._place.close()
        # Connections close one step of the loop after they are told to.
        await asyncio.sleep(0)

    def _session(self, team: str) -> TeamSession:
        session = self._sessions.get(team)
        if session is None:
            session = self._sessions[team] = TeamSession(
                self._shared.exact,
                team,
                lease_s=self._lease_s,
                wait_s=self._limits.lock_wait_s,
            )
        self._sessions.move_to_end(team)
        if len(self._sessions) > _SESSIONS_MAX:
            oldest = next(iter(self._sessions))
            if self._sessions[oldest].idle:
                del self._sessions[oldest]
        return session

    def _forget_team(self, team: str) -> None:
        """Forget a team: it is gone, or never existed."""
        session = self._sessions.get(team)
        if session is not None:
            session.forget()
            if session.idle:
                del self._sessions[team]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        # Clients may disconnect, or send something that is not a call.
        with suppress(asyncio.CancelledError, OSError, EOFError, ValueError, TimeoutError):
            if is_own_process(writer.get_extra_info("socket")):
                await HostSession(self._shared, reader, writer).run()
        if writer.transport.get_write_buffer_size():
            # It does not read its answers, and would keep the connection open.
            writer.transport.abort()
        writer.close()


async def _nothing_else(who: TokenIdentity, what: str, args: dict[str, Any]) -> Any:
    raise Refused(
        f"The host does not know the question {what!r}.",
        reason="unknown_question",
        remedy="Use the same version of Bullpen here and on the host.",
    )


async def _no_operations(who: TokenIdentity, call: OperationCall) -> Any:
    raise Refused(
        f"{call.name!r} was not done: no operations run at this socket.",
        reason="no_operations",
        remedy="Go through the host process of this machine: bullpen host run",
    )
