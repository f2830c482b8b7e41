"""Show in an agent's own terminal what it does."""

from __future__ import annotations

from contextlib import suppress

import anyio

from bullpen.agents.system.folders import agent_folder
from bullpen.agents.system.transcript import NAME
from bullpen.app.agent_work import run_agent
from bullpen.app.settings import Settings
from bullpen.app.stores import open_teams
from bullpen.doors.cli.agents.transcript_view import TranscriptViews
from bullpen.errors import BullpenError
from bullpen.view.transcript import TranscriptTail

_LOOK_EVERY_S = 0.5


async def run_shown(settings: Settings, show: TranscriptViews) -> int:
    """Run the agent of this process and show what it does; return the exit code."""
    tail = await _transcript(settings)
    async with anyio.create_task_group() as group:
        if tail is not None:
            group.start_soon(_show_on, tail, show)
        code = await run_agent(settings)
        group.cancel_scope.cancel()
    return code


async def _transcript(settings: Settings) -> TranscriptTail | None:
    """The transcript from now on; None if it cannot be found."""
    try:
        async with open_teams(settings) as teams:
            config = await teams.open(settings.team or "").agents.config()
        tail = TranscriptTail(agent_folder(settings.home, config, settings.agent) / NAME)
        tail.last(0)
    except (BullpenError, OSError):
        # The agent itself reports whether it can work.
        return None
    return tail


async def _show_on(tail: TranscriptTail, show: TranscriptViews) -> None:
    # The agent keeps working if its transcript cannot be shown.
    with suppress(BullpenError, OSError):
        try:
            while True:
                show.rows(tail.more())
                await anyio.sleep(_LOOK_EVERY_S)
        finally:
            show.rows(tail.more())
