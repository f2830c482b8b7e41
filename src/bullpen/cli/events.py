"""`bullpen events`: the log of everything that changed."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer

from bullpen.cli.command import command
from bullpen.cli.session import Session

if TYPE_CHECKING:
    from bullpen.team.team import Team


def register(app: typer.Typer) -> None:
    """Make these functions commands of `app`."""
    command(
        app,
        "events",
        examples=("bullpen events --after 120", "bullpen events --follow --json"),
    )(events)


def events(
    session: Session,
    *,
    after: Annotated[
        int, typer.Option(metavar="SEQ", min=0, help="Only what came after this event.")
    ] = 0,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="At most so many, the oldest first.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for new events.")] = False,
) -> None:
    """Show what changed, when, and by whom."""

    async def wait(team: Team) -> None:
        left = limit
        async with aclosing(team.follow_events(after=after)) as batches:
            async for batch in batches:
                session.show.event_lines(batch[:left])
                if left is not None:
                    left -= len(batch)
                    if left <= 0:
                        return

    if follow:
        session.with_team(wait)
    else:
        session.show.events(session.with_team(lambda team: team.events(after=after, limit=limit)))
