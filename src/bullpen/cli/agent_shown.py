"""An agent in a terminal of its own shows there what it does."""

from __future__ import annotations

from contextlib import suppress

import anyio

from bullpen.agents.launching import agent_folder
from bullpen.agents.transcript import NAME
from bullpen.app import Settings, open_teams
from bullpen.cli.transcript_view import TranscriptViews
from bullpen.errors import BullpenError
from bullpen.office import run_agent
from bullpen.view.transcript import Tail

_LOOK_EVERY_S = 0.5


async def run_shown(settings: Settings, show: TranscriptViews) -> int:
    """Be the agent that this process was started for, in sight; the exit code."""
    tail = await _transcript(settings)
    async with anyio.create_task_group() as group:
        if tail is not None:
            group.start_soon(_show_on, tail, show)
        code = await run_agent(settings)
        group.cancel_scope.cancel()
    return code


async def _transcript(settings: Settings) -> Tail | None:
    """What the agent will have done from now on; None if that cannot be known."""
    try:
        async with open_teams(settings) as teams:
            config = await teams.open(settings.team or "").agents.config()
        tail = Tail(agent_folder(settings.home, config, settings.agent) / NAME)
        tail.last(0)
    except (BullpenError, OSError):
        # Whether it can work is for the agent itself to find out.
        return None
    return tail


async def _show_on(tail: Tail, show: TranscriptViews) -> None:
    # An agent works on whether or not it can be looked at.
    with suppress(BullpenError, OSError):
        try:
            while True:
                show.rows(tail.more())
                await anyio.sleep(_LOOK_EVERY_S)
        finally:
            show.rows(tail.more())
