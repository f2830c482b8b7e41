"""The backends of this machine, with a timeout for every call.

An agent on another machine is stopped through that machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import anyio
from anyio import to_thread

from bullpen.agents.contracts.backend import Backend
from bullpen.agents.contracts.installed_parts import no_part
from bullpen.agents.contracts.machines import Hosts
from bullpen.agents.system import processes
from bullpen.errors import Unavailable
from bullpen.protocol.agent import ProcessRecord

SCREEN_S = 5.0
"""How long reading the last screen of an agent may take."""

_LOOKS = 12
"""How often a stop may have to look at all processes; on a starved machine a look takes seconds."""


class TeamBackends:
    """The backends by name, and the other machines of the team."""

    def __init__(self, team: str, backends: Mapping[str, Backend], hosts: Hosts) -> None:
        self._team = team
        self._backends = backends
        self._hosts = hosts

    def named(self, name: str) -> Backend:
        """The backend of this name. Raises Invalid if there is none."""
        try:
            return self._backends[name]
        except KeyError:
            raise no_part("backend", name, self._backends) from None

    async def check(self, name: str, *, within_s: float) -> None:
        """Raise Unavailable if agents cannot run on a backend, Invalid if there is none."""
        backend = self.named(name)
        with _answering(backend, within_s):
            await backend.check()

    async def end(
        self, agent: str, place: ProcessRecord | None, nonce: str, *, grace_s: float
    ) -> None:
        """Stop all processes of a launch, wherever they run. Raises Unavailable after a timeout."""
        if place is None:
            await processes.end(None, None, None, nonce, grace_s)
            return
        if place.host != processes.host_name():
            await self._hosts.stop(place, self._team, agent, nonce, grace_s=grace_s)
            return
        backend = self.named(place.backend)
        begun = time.monotonic()
        await to_thread.run_sync(processes.carriers, nonce, abandon_on_cancel=True)
        looks_s = _LOOKS * (time.monotonic() - begun)
        with _answering(backend, grace_s + processes.END_S + SCREEN_S + looks_s):
            await backend.stop(place, nonce, grace_s=grace_s)

    def attach(self, place: ProcessRecord | None) -> list[str] | None:
        """The command that shows a process in this terminal, or None if it has no screen."""
        if place is None or place.backend not in self._backends:
            return None
        return self._backends[place.backend].attach(place)


@contextmanager
def _answering(backend: Backend, seconds: float) -> Iterator[None]:
    """Limit how long a call to a backend may take. Raises Unavailable."""
    try:
        with anyio.fail_after(seconds):
            yield
    except TimeoutError:
        raise Unavailable(
            f"The backend {backend.name!r} does not answer.",
            remedy="Try again. Run `bullpen doctor --fix` to stop leftover processes.",
        ) from None
