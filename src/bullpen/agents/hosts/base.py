"""How agents reach the machines of their team, whatever the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from bullpen.errors import Refused, Unavailable
from bullpen.protocol.agent import ProcessRecord

ON = "on"
"""The option of an agent that any machine with certain labels may run."""

RESPAWN = "respawn"
"""The option of an agent that is started elsewhere when its machine is lost."""


class Hosts(Protocol):
    """The machines of a team, as one process can reach them."""

    async def admit(self, team: str, agent: str) -> Mapping[str, str]:
        """The variables by which an agent that is started on this machine finds its team."""

    async def place(
        self, team: str, agent: str, nonce: str, labels: Mapping[str, str], *, by: str
    ) -> None:
        """Ask for a machine that starts an agent, which is registered already.

        Raises:
            Refused: there are no other machines (one_machine).
            Unavailable: it could not be asked.
        """

    async def stop(
        self, place: ProcessRecord, team: str, agent: str, nonce: str, *, grace_s: float
    ) -> None:
        """Have the machine where an agent runs end it; returns when it is gone.

        Raises:
            Unavailable: that machine does not answer, or could not end it.
        """

    async def who(self) -> str:
        """The machines there are, for people: what a spawn that nobody took should name."""


class OneMachine:
    """There is this machine alone, or none that could be asked."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    async def admit(self, team: str, agent: str) -> Mapping[str, str]:
        """All agents find their team in the same way."""
        return self._variables

    async def place(
        self, team: str, agent: str, nonce: str, labels: Mapping[str, str], *, by: str
    ) -> None:
        """There is nobody to ask."""
        raise Refused(
            f"Team {team!r} is on this machine alone: {agent!r} cannot be put elsewhere.",
            reason="one_machine",
            remedy="Spawn it without --on, or move the team: bullpen team move TEAM --to nats://…",
        )

    async def stop(
        self, place: ProcessRecord, team: str, agent: str, nonce: str, *, grace_s: float
    ) -> None:
        """It runs somewhere that nobody knows of here."""
        raise Unavailable(
            f"{agent!r} runs on {place.host}, which cannot be reached from here.",
            remedy=f"Stop it on {place.host}.",
        )

    async def who(self) -> str:
        """There are none."""
        return "this machine only"
