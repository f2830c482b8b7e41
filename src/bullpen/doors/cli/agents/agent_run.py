"""`bullpen agent run`: be an agent. Backends start it; people do not."""

from __future__ import annotations

import os
import sys

import typer

from bullpen.agents.system.secrets import redact_output
from bullpen.app.agent_work import run_agent
from bullpen.app.steady_loop import run_steadily
from bullpen.doors.cli.agents.show_agent_run import run_shown
from bullpen.doors.cli.agents.transcript_view import TranscriptViews
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.session import Session


@examples("bullpen agent run --team alpha --as alice")
def run(session: Session) -> None:
    """Run the agent that this process was started for."""
    redact_output(os.environ)
    # What TERM says is of the terminal that it was spawned from: a bare one does as well.
    if sys.stdout is None or not sys.stdout.isatty():
        raise typer.Exit(run_steadily(run_agent, session.settings))
    raise typer.Exit(run_steadily(run_shown, session.settings, TranscriptViews(session.page)))
