"""`bullpen ps`: the agents of a team."""

from __future__ import annotations

from typing import Annotated

import anyio

from bullpen.agents.supervisor.roster_view import RosterView
from bullpen.doors.cli.agents.agents_table import agent_views
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import flag
from bullpen.doors.cli.session import Session

_LOOK_EVERY_S = 1.0


@examples("bullpen ps", "bullpen ps --watch", "bullpen ps --watch --jsonl")
def ps(
    session: Session,
    *,
    watch: Annotated[bool, flag("Show every change as it happens", "--watch")] = False,
) -> None:
    """Show agents: state, task, activity, cost."""
    if watch:
        session.goes_on("--watch")
        session.with_team(lambda team: _watch(session, RosterView(team)))
    else:
        snapshot, views = session.with_team(lambda team: RosterView(team).look())
        agent_views(session).agents(views, snapshot)


async def _watch(session: Session, roster: RosterView) -> None:
    last = None
    with session.page.frames() as picture:
        while True:
            snapshot, views = await roster.look()
            # On a screen the ages of states go on even when nothing else does.
            if session.page.draws or (snapshot, views) != last:
                agent_views(session).change(views, snapshot, picture)
            last = snapshot, views
            await anyio.sleep(_LOOK_EVERY_S)
