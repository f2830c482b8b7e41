"""`bullpen bridge`: run as a teammate that Claude Code starts."""

from __future__ import annotations

from typing import Annotated

from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import argument
from bullpen.doors.cli.session import Session
from bullpen.doors.cli.teams.guests import Guests


@examples("CLAUDE_CODE_TEAMMATE_COMMAND=$(which bullpen-bridge) claude", any_words=True)
def bridge(
    session: Session,
    words: Annotated[list[str] | None, argument("Options that Claude Code adds", "FLAGS")] = None,
) -> None:
    """Run as the teammate that a Claude Code lead starts.

    Claude Code runs the command in CLAUDE_CODE_TEAMMATE_COMMAND, a single word, in a pane for each
    teammate. `bridge.toml` in Bullpen's home sets the driver, model, mode and command;
    BULLPEN_BRIDGE_DRIVER overrides the driver.
    """
    Guests(session).take_place(words or [])
