"""The backend contract: where an agent runs, and what the operating system says about it.

A backend starts a program from a list of words, never a shell command line. It knows nothing of
teams, models or mail. Every backend must pass `bullpen.testing.backend_contract`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from bullpen.protocol.agent import ProcessRecord

NONCE = "BULLPEN_NONCE"
"""The variable that marks every process of one launch, in whatever process group."""

PERSON_KEY = "BULLPEN_PERSON_KEY"
"""The variable that can hold the key of a home's person. No agent gets it."""

FORGE_TOKEN = "BULLPEN_FORGE_TOKEN"  # noqa: S105 - the name of a variable
"""The variable that can hold the token of a forge. No agent gets it."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One start of one agent.

    `env` is the whole environment, including `NONCE`; nothing is inherited from this process or a
    server. The program's output goes to the file `log`. `modules` are those that the program will
    import, if it is Bullpen's own: a backend can have them ready. In `MODULE:FUNCTION`, the
    function is called once after that.
    """

    team: str
    agent: str
    nonce: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    log: str
    modules: tuple[str, ...] = ()


class Backend(Protocol):
    """A place to run agents. Every method has a timeout, after which it raises Unavailable."""

    @property
    def name(self) -> str:
        """The name that people use: in-process, subprocess, tmux."""

    async def check(self) -> None:
        """Raise Unavailable, naming what is missing, if agents cannot run here."""

    async def start(self, launch: Launch) -> ProcessRecord:
        """Start the program. Raises Unavailable, with its output, if it cannot be started.

        A start does not mean that the program works; the handshake proves that.
        """

    async def alive(self, place: ProcessRecord) -> bool:
        """Whether exactly this process, or any process of its group, is still running."""

    async def stop(self, place: ProcessRecord, nonce: str, *, grace_s: float) -> None:
        """Ask the process to end, then kill it; returns when it is gone.

        Processes with the nonce end too, even in other process groups; nothing else is touched.
        Stopping a process that is gone is fine. Takes at most `grace_s` plus 5 seconds.
        """

    async def screen(self, place: ProcessRecord) -> str:
        """The last lines of its output, even after its end; "" if there are none."""

    def attach(self, place: ProcessRecord) -> list[str] | None:
        """The command that shows it in this terminal, or None if it has no screen."""

    async def places(self) -> dict[str, ProcessRecord]:
        """Everything that this backend started and that still exists, by nonce; dead panes too.

        Only lists what this backend certainly started, for any caller.
        """

    async def aclose(self) -> None:
        """Release resources. Agents in their own processes keep running."""
