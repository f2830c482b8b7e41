"""How agents reach the machines of their team, with any store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from bullpen.errors import Refused, Unavailable
from bullpen.protocol.agent import ProcessRecord

ON = "on"
"""The option with the labels of the machines that may run an agent."""

RESPAWN = "respawn"
"""The option of an agent that is restarted elsewhere when its machine is lost."""


class Hosts(Protocol):
    """The machines of a team, as one process can reach them."""

    async def admit(self, team: str, agent: str) -> Mapping[str, str]:
        """The variables with which an agent that is started on this machine finds its team."""

    async def place(
        self, team: str, agent: str, nonce: str, labels: Mapping[str, str], *, by: str
    ) -> None:
        """Ask for a machine to start a registered agent.

        Raises:
            Refused: there are no other machines (one_machine).
            Unavailable: nobody could be asked.
        """

    async def stop(
        self, place: ProcessRecord, team: str, agent: str, nonce: str, *, grace_s: float
    ) -> None:
        """Stop an agent on the machine where it runs; returns when it is gone.

        Raises:
            Unavailable: that machine does not answer, or could not stop it.
        """

    async def who(self) -> str:
        """The machines there are, for the error of a spawn that none of them took."""


class OneMachine:
    """One machine: there are no others to ask."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    async def admit(self, team: str, agent: str) -> Mapping[str, str]:
        """All agents find their team in the same way."""
        return self._variables

    async def place(
        self, team: str, agent: str, nonce: str, labels: Mapping[str, str], *, by: str
    ) -> None:
        """There is no other machine to ask."""
        raise Refused(
            f"Cannot run {agent!r} elsewhere: team {team!r} is only on this machine.",
            reason="one_machine",
            remedy="Spawn it without --on, or move the team: bullpen team move TEAM --to nats://…",
        )

    async def stop(
        self, place: ProcessRecord, team: str, agent: str, nonce: str, *, grace_s: float
    ) -> None:
        """Other machines cannot be reached."""
        raise Unavailable(
            f"{agent!r} runs on {place.host}, which cannot be reached from this machine.",
            remedy=f"Stop it on {place.host}.",
        )

    async def who(self) -> str:
        """There is only this machine."""
        return "this machine only"
