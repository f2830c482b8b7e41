"""Host doors for tests: over any store, in this loop, in a thread, or in a process of their own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from anyio.from_thread import start_blocking_portal

from bullpen.fleet.host.agent_operations import AgentOperations
from bullpen.protocol.clock import Clock, now_ms
from bullpen.store.contract import Store, StoreLimits
from bullpen.store.hosted.client import HostedStore
from bullpen.store.hosted.server import LEASE_S, HostServer
from bullpen.store.hosted.tokens import OPERATOR, TokenIdentity

TOKENS = {
    "operator": OPERATOR,
    "lead": TokenIdentity("alpha", "team-lead"),
    "ann": TokenIdentity("alpha", "ann"),
    "bob": TokenIdentity("alpha", "bob"),
    "zoe": TokenIdentity("beta", "zoe"),
}
"""Tokens that say whose they are: only the file of real ones hides that."""


@asynccontextmanager
async def hosting(
    store: Store,
    *,
    limits: StoreLimits | None = None,
    lease_s: float = LEASE_S,
    clock: Clock = now_ms,
) -> AsyncIterator[str]:
    """A door to a store in this loop, which runs operations for agents; gives its path."""
    with tempfile.TemporaryDirectory(prefix="bp-") as folder:
        path = str(Path(folder) / "d" / "s")
        operate = AgentOperations(store, judge=_any_spec, place=_any_place, clock=clock)
        async with HostServer(
            store, path, TOKENS.get, limits=limits, lease_s=lease_s, operate=operate
        ):
            yield path


async def _any_spec(*_: object) -> None:
    """Let agents spawn anything: other tests judge that."""


async def _any_place(*_: object) -> None:
    """Believe every agent where it runs."""


class Served(HostedStore):
    """A store with a host of its own in another thread, which ends with it."""

    def __init__(self, make: Callable[[], Store], limits: StoreLimits) -> None:
        self._folder = tempfile.mkdtemp(prefix="bp-")
        path = str(Path(self._folder) / "s")
        super().__init__(path, "operator", limits=limits)
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal("asyncio"))
            inner = portal.call(make)
            stack.callback(portal.call, inner.aclose)
            door = HostServer(inner, path, TOKENS.get, limits=limits)
            portal.call(door.open)
            stack.callback(portal.call, door.aclose)
            self._open = stack.pop_all()

    async def aclose(self) -> None:
        await super().aclose()
        self._open.close()
        shutil.rmtree(self._folder)
