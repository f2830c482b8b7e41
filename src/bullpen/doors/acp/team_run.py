"""One run of a session's team, beside the prompts that it answers."""

from __future__ import annotations

import os
from contextlib import suppress

import anyio

from bullpen.app.app import App
from bullpen.doors.acp.team_start import Run
from bullpen.errors import BullpenError
from bullpen.protocol.names import LEAD
from bullpen.runs.watch.outcome import Outcome, Progress


class SessionRun:
    """A run, how far it is, and how it ended."""

    def __init__(self, app: App, team: str) -> None:
        self._app = app
        self._team = team
        self.scope = anyio.CancelScope()
        self.done = anyio.Event()
        self.progress: Progress | None = None
        self.outcome: Outcome | None = None
        self.error: Exception | None = None
        self._told: list[str] = []

    async def run(self, run: Run) -> None:
        """Do it to its end. Cancelling stops its agents; the team stays."""
        try:
            with self.scope:
                self.outcome = await run(self._saw)
        except Exception as error:
            self.error = error
        finally:
            with anyio.CancelScope(shield=True), suppress(BullpenError):
                await self._drop_lease()
            self.done.set()

    def take_told(self) -> list[str]:
        """What only the run knows, such as that work cannot be merged; each once."""
        told, self._told = self._told, []
        return told

    def _saw(self, progress: Progress) -> None:
        self.progress = progress
        self._told += progress.told

    async def _drop_lease(self) -> None:
        """Drop the lease of a lead that failed inside this process, which lives on.

        Others, and the next run here, would take this process for a lead that is at work.
        """
        agents = self._app.teams.open(self._team).agents
        held = await agents.leader()
        if held is not None and held.pid == os.getpid():
            await agents.drop_lead(held.nonce, by=LEAD)
