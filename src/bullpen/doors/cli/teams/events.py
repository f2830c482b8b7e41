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


@examples(
    "bullpen events --last 20", "bullpen events --after 120", "bullpen events --follow --json"
)
def events(
    session: Session,
    *,
    after: Annotated[int | None, option("Show only events after this one", "SEQ", min=0)] = None,
    limit: Annotated[
        int | None, option("Show the newest N events; with --after, the next N", "N", min=1)
    ] = None,
    last: Annotated[int | None, option("Show only the last N events", "N", min=1)] = None,
    follow: Annotated[bool, flag("Keep showing new events", "--follow")] = False,
) -> None:
    """Show every change to a team: when, who, what.

    The newest is last.
    """

    async def before_first(team: Team, newest: int | None) -> int:
        start = after or 0
        return start if newest is None else max(start, await team.last_seq() - newest)

    async def read(team: Team) -> list[Event]:
        newest = limit if last is None and after is None else last
        if newest is None:
            return await team.events(after=after or 0, limit=limit)
        return (await team.events(after=await before_first(team, newest)))[-newest:][:limit]

    async def wait(team: Team) -> None:
        left = limit
        async with aclosing(team.follow_events(after=await before_first(team, last))) as batches:
            async for batch in batches:
                RecordViews(session.page).event_lines(batch[:left])
                if left is not None:
                    left -= len(batch)
                    if left <= 0:
                        return

    if follow:
        session.with_team(wait)
    else:
        RecordViews(session.page).events(session.with_team(read))
