"""`bullpen agent run`: be an agent. Backends start it; people do not."""

from __future__ import annotations

import typer

from bullpen.cli.command import Noun, command
from bullpen.cli.session import Session

noun = Noun("What runs inside the processes of agents.")


@command(noun.commands, "run", examples=("bullpen agent run --team alpha --as alice",))
def run(session: Session) -> None:
    """Take the turns of the agent that this process was started for, until it ends."""
    raise typer.Exit(session.be_agent())
