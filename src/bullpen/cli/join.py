"""`bullpen join`: an agent of ours on the team of a running Claude Code session."""

from __future__ import annotations

from typing import Annotated

import typer

from bullpen.cli.command import command
from bullpen.cli.policy_options import PolicyOptions
from bullpen.cli.session import Session, text_or_input
from bullpen.cli.spawn_options import SpawnOptions, Wait


def register(app: typer.Typer) -> None:
    """Make these functions commands of `app`."""
    command(
        app,
        "join",
        examples=(
            "bullpen join alice --claude",
            "bullpen join alice --claude 35fc651c --driver codex --prompt 'Review what bob does'",
            "bullpen join alice --claude --detach && bullpen stop alice --home ~/.claude",
        ),
    )(join)


def join(
    session: Session,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The agent's name.", show_default=False)
    ],
    which: Annotated[
        str | None,
        typer.Argument(
            metavar="SESSION",
            help="The session: its id, the beginning of that, or its team. [default: the only one]",
            show_default=False,
        ),
    ] = None,
    *,
    claude: Annotated[
        bool, typer.Option("--claude", help="It is a session of Claude Code.", show_default=False)
    ] = False,
    prompt: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What it is told first; - reads it from input."),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return at once; `bullpen stop` makes it leave.")
    ] = False,
    made: SpawnOptions,
    wait: Wait = None,
    rights: PolicyOptions,
) -> None:
    """Let an agent join the team of a running Claude Code session.

    What it may not do unasked, the session's own user is asked. It leaves with Ctrl-C, when the
    lead has it shut down, or when the session ends; its unfinished tasks become pending again.
    """
    if not claude:
        raise typer.BadParameter("say whose session it is: --claude.")
    session.refuse_agents("join a session")
    text = None if prompt is None else text_or_input(prompt)
    code = session.guests.join(
        name,
        which,
        {**made.stated(), "prompt": text},
        mode=rights.mode,
        stated=rights.stated(),
        project_settings=not rights.no_project_settings,
        detach=detach,
        wait=wait,
    )
    raise typer.Exit(code)
