"""`bullpen requests`: what waits for an answer."""

from __future__ import annotations

from typing import Annotated

import anyio
import typer

from bullpen.doors.actions.request_lookup import FoundRequest, Search, search
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options import completion
from bullpen.doors.cli.options.option import argument, flag
from bullpen.doors.cli.permissions.request_view import RequestViews
from bullpen.doors.cli.session import Session
from bullpen.team.team import Teams

_LOOK_EVERY_S = 1.0


@examples("bullpen requests", "bullpen requests --watch", "bullpen requests 3f2a")
def requests(
    session: Session,
    request: Annotated[
        str | None,
        argument("Show everything about this request", "ID", complete=completion.request_ids),
    ] = None,
    *,
    everything: Annotated[bool, flag("Include answered requests", "--all")] = False,
    watch: Annotated[bool, flag("Keep running and show new requests", "--watch")] = False,
) -> None:
    """List requests that wait for an answer.

    Shows who asks, for what exactly, and why. Without --team, lists the requests of all teams.
    """
    if request is not None and (everything or watch):
        raise typer.BadParameter("name one request, or pass --all or --watch.")
    if watch and everything:
        raise typer.BadParameter("pass --watch or --all, not both.")
    if watch:
        session.goes_on("--watch")
        session.with_teams(lambda teams: _watch(session, teams))
        return
    found = find_requests(session)
    if request is not None:
        request_views(session).one(found.one_to_see(request))
    elif everything:
        request_views(session).every(found)
    else:
        request_views(session).waiting(found, team=session.team)


async def _watch(session: Session, teams: Teams) -> None:
    views = request_views(session)
    found = await search(teams, session.team)
    views.begins(found)
    shown: dict[str, FoundRequest] = {}
    while True:
        waiting = {each.request.id: each for each in found.waiting}
        now = {each.request.id: each for each in found.found}
        for gone in [request_id for request_id in shown if request_id not in waiting]:
            views.goes(now.get(gone, shown[gone]))
            del shown[gone]
        for request_id, new in waiting.items():
            if request_id not in shown:
                shown[request_id] = new
                views.comes(new)
        await anyio.sleep(_LOOK_EVERY_S)
        found = await search(teams, session.team)


def request_views(session: Session) -> RequestViews:
    """The requests, as the reader of this command wants them."""
    return RequestViews(session.page, elsewhere=session.elsewhere)


def find_requests(session: Session) -> Search:
    """The requests of the team that was named, or of all teams."""
    return session.with_teams(lambda teams: search(teams, session.team))
