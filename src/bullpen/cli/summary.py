"""`bullpen summary`: what a team did, and what is left for a person to see to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bullpen.cli.command import command
from bullpen.cli.session import Session

if TYPE_CHECKING:
    from bullpen.office import Office
    from bullpen.unattended.summary import Summary


def register(app: typer.Typer) -> None:
    """Make this function a command of `app`."""
    command(
        app,
        "summary",
        examples=(
            "bullpen summary -t night",
            "bullpen summary -t night --markdown > $GITHUB_STEP_SUMMARY",
        ),
    )(summary)


def summary(
    session: Session,
    *,
    markdown: Annotated[bool, typer.Option("--markdown", help="As a Markdown page.")] = False,
) -> None:
    """Show what a team did: tasks, merges, members, money, what is left.

    All of it is in the team's records, so it can be asked for at any time, while it works too.
    """

    async def look(office: Office, team: str) -> Summary:
        return await session.runs.summary(office, team)

    session.show_summary.whole(session.with_office(look), markdown=markdown)
