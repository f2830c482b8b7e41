"""The machines of a team, for an agent that reaches its team through the host of its machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from bullpen.protocol.agent import ProcessRecord


class Asks(Protocol):
    """Whoever can be asked things that are no matter of the store."""

    async def ask(self, what: str, **args: Any) -> Any:
        """What the host answers. Raises what the host raises."""


class ThroughHost:
    """Passes everything on to the host, which knows who asks."""

    def __init__(self, host: Asks, variables: Mapping[str, str]) -> None:
        self._host = host
        self._variables = variables

    async def admit(self, team: str, agent: str) -> Mapping[str, str]:
        """The host gives a new agent its own secret, if whoever asks has spawned it."""
        return {**self._variables, **await self._host.ask("admit", team=team, agent=agent)}

    async def place(
        self, team: str, agent: str, nonce: str, labels: Mapping[str, str], *, by: str
    ) -> None:
        """The host asks for a machine."""
        await self._host.ask("place", team=team, agent=agent, nonce=nonce, labels=dict(labels))

    async def stop(
        self, place: ProcessRecord, team: str, agent: str, nonce: str, *, grace_s: float
    ) -> None:
        """The host asks the other host."""
        await self._host.ask(
            "stop", place=place.raw, team=team, agent=agent, nonce=nonce, grace_s=grace_s
        )

    async def who(self) -> str:
        """The hosts that ours knows of."""
        return str(await self._host.ask("who"))
