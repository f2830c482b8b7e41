"""`bullpen drivers`: the programs that can take an agent's turns."""

from __future__ import annotations

import os

import typer

from bullpen.cli.command import command
from bullpen.cli.session import Session


def register(app: typer.Typer) -> None:
    """Make this function a command of `app`."""
    command(app, "drivers", examples=("bullpen drivers", "bullpen drivers --json"))(drivers)


def drivers(session: Session) -> None:
    """Show the programs that can take an agent's turns, and what each can do."""
    from bullpen.agents.drivers.survey import survey
    from bullpen.cli.drivers_view import show_drivers

    show_drivers(session.page, survey(os.environ))
