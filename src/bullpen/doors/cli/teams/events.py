"""`bullpen events`: the log of everything that changed."""

from __future__ import annotations

from contextlib import aclosing
from typing import Annotated

from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import flag, option
from bullpen.doors.cli.output.records_view import RecordViews
from bullpen.doors.cli.session import Session
from bullpen.team.team import Team


@examples("bullpen events --after 120", "bullpen events --follow --json")
def events(
    session: Session,
    *,
    after: Annotated[int, option("Show only events after this one", "SEQ", min=0)] = 0,
    limit: Annotated[int | None, option("Show at most N events, oldest first", "N", min=1)] = None,
    follow: Annotated[bool, flag("Keep showing new events", "--follow")] = False,
) -> None:
    """Show every change to a team: when, who, what."""

    async def wait(team: Team) -> None:
        left = limit
        async with aclosing(team.follow_events(after=after)) as batches:
            async for batch in batches:
                RecordViews(session.page).event_lines(batch[:left])
                if left is not None:
                    left -= len(batch)
                    if left <= 0:
                        return

    if follow:
        session.with_team(wait)
    else:
        RecordViews(session.page).events(
            session.with_team(lambda team: team.events(after=after, limit=limit))
        )
