"""`bullpen bridge`: what a real Claude Code starts as its teammate is an agent of ours."""

from __future__ import annotations

from typing import Annotated

import typer

from bullpen.cli.command import command
from bullpen.cli.session import Session


def register(app: typer.Typer) -> None:
    """Make these functions commands of `app`."""
    command(
        app,
        "bridge",
        any_words=True,
        examples=("CLAUDE_CODE_TEAMMATE_COMMAND=$(which bullpen-bridge) claude",),
    )(bridge)


def bridge(
    session: Session,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="FLAGS", help="What Claude Code adds.", show_default=False),
    ] = None,
) -> None:
    """Be the teammate that a Claude Code lead starts, with a driver of your choice.

    Claude Code runs the command that CLAUDE_CODE_TEAMMATE_COMMAND names, one word, in a pane for
    each teammate. Which driver takes the turns, and its model, mode and command, stand in
    `bridge.toml` in the home of Bullpen; BULLPEN_BRIDGE_DRIVER names another driver.
    """
    session.guests.take_place(words or [])
