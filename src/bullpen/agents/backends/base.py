"""The backend contract: where an agent runs, and the operating system's word on it.

A backend starts a program that is given as a list of words, never as a line for a shell; it knows
nothing of teams, models or mail. `bullpen.testing.backend_contract` is what every one must pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from bullpen.protocol.agent import ProcessRecord

NONCE = "BULLPEN_NONCE"
"""The variable that marks every process of one launch, whatever group it moves to."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One start of one agent.

    `env` is the whole environment; nothing is inherited, neither from this process nor from a
    server. It always holds `NONCE`. What the program prints goes to the file `log`.
    """

    team: str
    agent: str
    nonce: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    log: str


class Backend(Protocol):
    """A place to run agents. Every method has a deadline; at it, it raises Unavailable."""

    @property
    def name(self) -> str:
        """What people call it: in-process, subprocess, tmux."""

    async def check(self) -> None:
        """Raise Unavailable, naming what is missing, if agents cannot run here."""

    async def start(self, launch: Launch) -> ProcessRecord:
        """Start the program. Raises Unavailable, with what it printed, if it cannot be started.

        That it started says nothing about whether it works: that is what the handshake is for.
        """

    async def alive(self, place: ProcessRecord) -> bool:
        """Whether the very process that was started, or any of its group, still runs."""

    async def stop(self, place: ProcessRecord, nonce: str, *, grace_s: float) -> None:
        """Ask the process to end, then end it; returns when the system says that it is gone.

        What carries the nonce is ended with it, also in other process groups; nothing else is
        touched. Stopping what is gone already is fine. Takes at most `grace_s` and 5 seconds.
        """

    async def screen(self, place: ProcessRecord) -> str:
        """The last lines it showed, also after its end; "" if it showed nothing."""

    def attach(self, place: ProcessRecord) -> list[str] | None:
        """The command that shows it in this terminal, or None if there is nothing to see."""

    async def places(self) -> dict[str, ProcessRecord]:
        """What this backend started and is still there, by nonce; a dead pane too.

        Only what surely was started by this backend is ever listed, whoever asked for it.
        """

    async def aclose(self) -> None:
        """Let go of what is held here. Agents that run in processes of their own go on."""
