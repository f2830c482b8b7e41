"""What a person at a terminal sees while agents start."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bullpen.agents.supervisor.admission import RoomWait, WaitsForRoom
from bullpen.doors.cli.output.page import is_terminal
from bullpen.doors.cli.output.start_line import start_line
from bullpen.doors.cli.session import Session


@asynccontextmanager
async def starting(session: Session) -> AsyncIterator[RoomWait]:
    """Show on standard error what agents that start meanwhile wait for and do."""
    async with start_line(live=is_terminal(sys.stderr) and not session.wants_plain) as line:

        def told(waits: WaitsForRoom) -> None:
            line.clear()
            session.page.warn(str(waits))
            line.step(waits.agent, "waiting for room")

        yield RoomWait(told=told, step=line.step)
