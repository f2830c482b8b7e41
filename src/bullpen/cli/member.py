"""`bullpen member`: who is in a team."""

from __future__ import annotations

from typing import Annotated

import typer

from bullpen.cli import complete
from bullpen.cli.command import Noun, command
from bullpen.cli.session import Session, directory

noun = Noun("Add, list and remove the members of a team.")


@command(
    noun.commands,
    "add",
    examples=(
        "bullpen member add alice",
        "bullpen member add bob --type reviewer --prompt 'Review each change' --plan-mode",
    ),
)
def add(
    session: Session,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The new member's name.", show_default=False)
    ],
    *,
    agent_type: Annotated[
        str, typer.Option("--type", metavar="TYPE", help="What kind of agent it is.")
    ] = "general-purpose",
    model: Annotated[str | None, typer.Option(metavar="NAME", help="The model it runs on.")] = None,
    prompt: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What it is told at its start.")
    ] = None,
    cwd: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where it works. [default: here]")
    ] = None,
    plan_mode: Annotated[
        bool, typer.Option("--plan-mode", help="It must have a plan approved before it works.")
    ] = False,
) -> None:
    """Add a teammate."""
    where = directory(cwd)
    member = session.with_team(
        lambda team: team.roster.join(
            name,
            by=session.actor,
            agent_type=agent_type,
            model=model,
            prompt=prompt,
            cwd=where,
            plan_mode_required=plan_mode,
        )
    )
    session.page.result(member.raw, f"Added {member.name} ({member.color}).")


@command(noun.commands, "list", examples=("bullpen member list",))
def list_members(session: Session) -> None:
    """List the members: state, tasks in progress, unread messages."""
    session.show.members(session.with_team(lambda team: team.snapshot()))


@command(noun.commands, "remove", examples=("bullpen member remove bob",))
def remove(
    session: Session,
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="The member.", autocompletion=complete.member_names),
    ],
) -> None:
    """Remove a teammate; its unfinished tasks become pending again."""
    removal = session.with_team(lambda team: team.roster.remove(name, by=session.actor))
    released = [task.id for task in removal.released]
    session.page.result(
        {"member": removal.member.raw, "released": [task.raw for task in removal.released]},
        f"Removed {name}.",
        *([f"Pending again: task {', '.join(released)}."] if released else []),
    )
