"""`bullpen join`: add an agent to a running Claude Code session."""

from __future__ import annotations

from typing import Annotated

import typer

from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.limits import Wait
from bullpen.doors.cli.options.option import argument, flag, option
from bullpen.doors.cli.options.policy import PolicyOptions
from bullpen.doors.cli.options.spawn import SpawnOptions
from bullpen.doors.cli.session import Session, text_or_input
from bullpen.doors.cli.teams.guests import Guests


@examples(
    "bullpen join alice --claude",
    "bullpen join alice --claude 35fc651c --driver codex --prompt 'Review it'",
    "bullpen join alice --claude --detach && bullpen stop alice --home ~/.claude",
)
def join(
    session: Session,
    name: Annotated[str, argument("Name of the agent", "NAME")],
    which: Annotated[
        str | None,
        argument(
            "The session: its id, the start of its id, or its team [default: the only one]",
            "SESSION",
        ),
    ] = None,
    *,
    claude: Annotated[bool, flag("Join a session of Claude Code", "--claude")] = False,
    prompt: Annotated[
        str | None, option("The first instruction; - reads standard input", "TEXT")
    ] = None,
    detach: Annotated[
        bool, flag("Return at once; `bullpen stop` makes it leave", "--detach")
    ] = False,
    made: SpawnOptions,
    wait: Wait = None,
    rights: PolicyOptions,
) -> None:
    """Add an agent to a running Claude Code session.

    Actions that need approval are put to the user of that session. The agent leaves on Ctrl-C, when
    the lead shuts it down, or when the session ends; its unfinished tasks become pending again.
    """
    if not claude:
        raise typer.BadParameter("pass --claude: only sessions of Claude Code can be joined.")
    text = None if prompt is None else text_or_input(prompt)
    code = Guests(session).join(
        name,
        which,
        made.request(prompt=text, rights=rights),
        stated=rights.stated(),
        detach=detach,
        wait=wait,
    )
    raise typer.Exit(code)
