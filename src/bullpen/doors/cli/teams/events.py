"""`bullpen events`: the log of everything that changed."""

from __future__ import annotations

from contextlib import aclosing
from typing import Annotated

from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import flag, option
from bullpen.doors.cli.output.records_view import RecordViews
from bullpen.doors.cli.session import Session
from bullpen.protocol.changes import Event
from bullpen.team.team import Team


@examples("bullpen events -n 20", "bullpen events --after 120", "bullpen events --follow --jsonl")
def events(
    session: Session,
    *,
    after: Annotated[int | None, option("Show only events after this one", "SEQ", min=0)] = None,
    limit: Annotated[
        int | None,
        option("Show the newest N events; with --after, the next N", "N", "--limit", "-n", min=1),
    ] = None,
    follow: Annotated[bool, flag("Keep showing new events", "--follow", "-f")] = False,
) -> None:
    """Show every change to a team: when, who, what.

    The newest is last. With --follow and --after, it ends after the next N events.
    """

    async def start(team: Team) -> int:
        if after is not None or limit is None:
            return after or 0
        return max(0, await team.last_seq() - limit)

    async def read(team: Team) -> list[Event]:
        return await team.events(after=await start(team), limit=limit)

    async def wait(team: Team) -> None:
        left = None if after is None else limit
        async with aclosing(team.follow_events(after=await start(team))) as batches:
            async for batch in batches:
                RecordViews(session.page).event_lines(batch[:left])
                if left is not None:
                    left -= len(batch)
                    if left <= 0:
                        return

    if follow:
        session.goes_on("--follow")
        session.with_team(wait)
    else:
        RecordViews(session.page).events(session.with_team(read))
