"""Notify clients when a resource that they subscribed to changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import anyio
from anyio.abc import TaskGroup
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated

from bullpen.doors.mcp.desk import MemberDesk
from bullpen.doors.mcp.resources import Part, roster_json, tasks_json, uri_of
from bullpen.errors import BullpenError
from bullpen.protocol.message import DeliveryState
from bullpen.team.team import Team

_SESSIONS_MAX = 64
"""How many clients of the older protocol may follow one resource of one member."""


class ChangeNotices:
    """The notices to one member's clients. They never mention another member's mail.

    The team is watched only while a client has subscribed.
    """

    def __init__(self, desk: MemberDesk) -> None:
        self._desk = desk
        self._bus = InMemorySubscriptionBus()
        self._listening = ListenHandler(self._bus)
        # Clients of the older protocol, by the resource they subscribed to.
        self._sessions: dict[str, list[ServerSession]] = {}
        self._watch: anyio.CancelScope | None = None
        self._ready = anyio.Event()

    async def listen(
        self,
        context: ServerRequestContext[Any, Any],
        params: types.SubscriptionsListenRequestParams,
        group: TaskGroup,
    ) -> types.SubscriptionsListenResult:
        """Answer a client of the present protocol with a stream of notices."""
        if self._desk.is_bound:
            await self._begin(group)
        return await self._listening(context, params)

    async def subscribe(self, session: ServerSession, uri: str, group: TaskGroup) -> None:
        """Subscribe a client of the older protocol."""
        sessions = self._sessions.setdefault(uri, [])
        sessions.append(session)
        del sessions[:-_SESSIONS_MAX]
        if self._desk.is_bound:
            await self._begin(group)

    def unsubscribe(self, uri: str) -> None:
        """Stop notices about a resource to the member's older clients."""
        self._sessions.pop(uri, None)

    def stop(self) -> None:
        """Stop watching the team; open streams end cleanly."""
        if self._watch is not None:
            self._watch.cancel()
        self._watch = None
        self._listening.close()

    async def _begin(self, group: TaskGroup) -> None:
        """Watch the team; returns once every later change will be noticed."""
        if self._watch is None:
            self._watch, self._ready = anyio.CancelScope(), anyio.Event()
            group.start_soon(self._watched, self._desk.team, self._watch, self._ready)
        await self._ready.wait()

    async def _watched(self, team: Team, scope: anyio.CancelScope, ready: anyio.Event) -> None:
        began = [anyio.Event(), anyio.Event()]

        async def watch(look: Callable[[], Awaitable[None]]) -> None:
            try:
                await look()
            except BullpenError:
                # The team was deleted or cannot be read. The next request gets the error.
                for event in began:
                    event.set()

        with scope:
            async with anyio.create_task_group() as group:
                group.start_soon(watch, lambda: self._look_at_team(team, began[0]))
                group.start_soon(watch, lambda: self._look_at_mail(team, began[1]))
                for event in began:
                    await event.wait()
                ready.set()
        ready.set()

    async def _look_at_team(self, team: Team, began: anyio.Event) -> None:
        roster = tasks = None
        async with aclosing(team.snapshots()) as snapshots:
            async for seen in snapshots:
                now_roster, now_tasks = roster_json(seen), tasks_json(seen)
                if began.is_set():
                    if now_roster != roster:
                        await self._tell(team.name, "roster")
                    if now_tasks != tasks:
                        await self._tell(team.name, "tasks")
                roster, tasks = now_roster, now_tasks
                began.set()

    async def _look_at_mail(self, team: Team, began: anyio.Event) -> None:
        known: list[tuple[str, DeliveryState]] = []
        async with aclosing(team.changes(agent=self._desk.agent)) as changes:
            async for _ in changes:
                box = await team.mailbox.read(self._desk.agent)
                now = [(entry.id, entry.state) for entry in box.entries]
                if began.is_set() and now != known:
                    await self._tell(team.name, "mailbox")
                known = now
                began.set()

    async def _tell(self, team: str, part: Part) -> None:
        uri = uri_of(team, part)
        await self._bus.publish(ResourceUpdated(uri=uri))
        for session in self._sessions.get(uri, ()):
            # A client that has disconnected is ignored.
            await session.send_resource_updated(uri)
