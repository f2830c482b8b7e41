"""Where an agent of the tests works: a desk, and native drivers on a mock model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from bullpen.agents.contracts.tool import Tool
from bullpen.agents.drivers.native.driver import Native
from bullpen.agents.drivers.native.model import Waits
from bullpen.agents.tools.toolbox import toolbox
from bullpen.protocol.names import LEAD
from bullpen.testing.desks import RecordingDesk
from bullpen.testing.models import MockModels

DEADLINE_S = 60.0


@dataclass
class Workplace:
    """Where ann works: her desk, and drivers for it, one after another."""

    desk: RecordingDesk
    folder: Path

    @asynccontextmanager
    async def driver(
        self,
        mock: MockModels,
        *,
        tools: Callable[[Any], list[Tool[Any]]] = toolbox,
        waits: Waits = Waits(),  # noqa: B008 - frozen
    ) -> AsyncIterator[Native]:
        """A new driver, as a new process would make it, until the end of the block."""
        limits = self.folder / "limits"
        native = Native(self.desk.spec, mock.env, limits=limits, tools=tools, waits=waits)
        with anyio.fail_after(DEADLINE_S):
            await native.start(self.desk)
        try:
            yield native
        finally:
            with anyio.fail_after(DEADLINE_S, shield=True):
                await native.aclose()

    async def turn(self, native: Native, text: str = "It is your turn.") -> str:
        """A whole turn with the mail there is; its last words."""
        with anyio.fail_after(DEADLINE_S):
            return (await native.turn(await self.desk.begin(text), self.desk)).text

    async def send(self, text: str) -> str:
        """A message of the lead to ann; its id."""
        return (await self.desk.team.mailbox.send("ann", text, sender=LEAD)).id

    def recorded(self, kind: str) -> list[dict[str, Any]]:
        """The lines of the transcript of one kind."""
        return [data for name, data in self.desk.records if name == kind]
