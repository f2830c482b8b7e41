"""Follows a team once for all visitors, and streams its changes to each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

import anyio
from starlette.types import Receive, Scope, Send

from bullpen.errors import BullpenError, NotFound
from bullpen.view.follow import TeamFollower
from bullpen.view.scene import Scene

ALIVE_S = 15.0
"""How often a silent stream sends a comment, so that proxies keep it open."""

STREAMS_MAX = 200

_SEND_S = 30.0
_RETRY_S = 1.0


class Live:
    """The newest scene of a team, and a way to wait for the next one."""

    def __init__(self, following: TeamFollower) -> None:
        self.following = following
        self._scene: Scene | None = None
        # Why there is no scene yet.
        self._failed: BullpenError | None = None
        self.version = 0
        # Why following ended; None while it goes on.
        self.over: str | None = None
        self.streams = 0
        self._changed = anyio.Event()

    @property
    def scene(self) -> Scene:
        """The newest scene, once it is `ready`."""
        if self._scene is None:
            raise RuntimeError("The first scene is not there yet.")
        return self._scene

    @property
    def waiting(self) -> int:
        """How many requests wait for an answer, as far as is known."""
        return 0 if self._scene is None else len(self._scene.asks)

    async def ready(self) -> None:
        """Wait for the first scene. Raises NotFound, Unavailable."""
        while self._scene is None and self.over is None:
            if self._failed is not None:
                raise self._failed
            await self._changed.wait()
        if self._scene is None:
            raise NotFound(str(self.over), remedy="Open another team: bullpen web -t NAME")

    async def follow(self) -> None:
        """Keep the scene up to date until the team is deleted or the server ends."""
        while self.over is None:
            try:
                async with aclosing(self.following.scenes()) as scenes:
                    async for scene in scenes:
                        self._scene, self._failed = scene, None
                        self._tell()
            except NotFound as error:
                self.end(str(error))
            except BullpenError as error:
                self._failed = error
                if self._scene is not None:
                    self._scene = replace(self._scene, problems=(f"{error} Trying again.",))
                self._tell()
                await anyio.sleep(_RETRY_S)

    async def newer_than(self, version: int, *, within_s: float) -> None:
        """Wait for a scene newer than this version, but not longer than `within_s`."""
        if self.version > version or self.over is not None:
            return
        changed = self._changed
        with anyio.move_on_after(within_s):
            await changed.wait()

    def end(self, why: str) -> None:
        """Stop following and wake everybody who waits."""
        self.over = why
        self._tell()

    def _tell(self) -> None:
        self.version += 1
        self._changed.set()
        self._changed = anyio.Event()


class Stream:
    """A response of server-sent events that lasts until the browser disconnects."""

    def __init__(self, live: Live, lines: Callable[[], AsyncIterator[str]]) -> None:
        self._live = live
        self._lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            # Some proxies would buffer the stream.
            (b"x-accel-buffering", b"no"),
        ]
        async with self._counted(), anyio.create_task_group() as group:
            group.start_soon(_until_gone, receive, group.cancel_scope.cancel)
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._all(send)
            group.cancel_scope.cancel()

    async def _all(self, send: Send) -> None:
        async for line in self._lines():
            body = line.encode("utf-8", "replace")
            with anyio.move_on_after(_SEND_S) as deadline:
                await send({"type": "http.response.body", "body": body, "more_body": True})
            if deadline.cancelled_caught:
                # The browser has stopped reading. It will connect again.
                return
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        self._live.streams += 1
        try:
            yield
        finally:
            self._live.streams -= 1


async def _until_gone(receive: Receive, end: Callable[[], object]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    end()
