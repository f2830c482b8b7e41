"""Reach the machines of a team through the host process of an agent's machine."""

from __future__ import annotations

from collections.abc import Mapping

from bullpen.protocol.agent import ProcessRecord
from bullpen.store.hosted.client import HostedStore


class ThroughHost:
    """Passes every call on to the host, which knows who asks."""

    def __init__(self, host: HostedStore, variables: Mapping[str, str]) -> None:
        self._host = host
        self._variables = variables

    async def admit(self, team: str, agent: str) -> Mapping[str, str]:
        """The host gives a new agent its own secret, if the caller spawned it."""
        return {**self._variables, **await self._host.ask("admit", team=team, agent=agent)}

    async def place(
        self, team: str, agent: str, nonce: str, labels: Mapping[str, str], *, by: str
    ) -> None:
        await self._host.ask("place", team=team, agent=agent, nonce=nonce, labels=dict(labels))

    async def stop(
        self, place: ProcessRecord, team: str, agent: str, nonce: str, *, grace_s: float
    ) -> None:
        await self._host.ask(
            "stop", place=place.raw, team=team, agent=agent, nonce=nonce, grace_s=grace_s
        )

    async def who(self) -> str:
        """The hosts that our host knows."""
        return str(await self._host.ask("who"))
