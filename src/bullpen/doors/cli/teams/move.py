"""`bullpen team move`: move a team to another store."""

from __future__ import annotations

from contextlib import aclosing
from typing import Annotated

from bullpen.app.app import App
from bullpen.app.stores import open_store_at
from bullpen.doors.cli.app_session import with_app
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import flag, option
from bullpen.doors.cli.session import Session, directory
from bullpen.doors.cli.teams.team import Name
from bullpen.errors import NotFound, Refused
from bullpen.team.moving.move import Moved, Stage

_FILES = "files:"

_SAID: dict[Stage, str] = {
    "closed": "Closed the team here.",
    "copied": "Copied {events} events.",
    "restored": "Restored {events} events there.",
    "compared": "Compared {events} events, all records and all messages: equal.",
    "opened": "Opened the team there.",
    "removed": "Removed it here.",
}


@examples(
    "bullpen team move alpha --to nats://127.0.0.1:4222",
    "bullpen team move alpha --to files:/srv/teams --keep",
)
def move(
    session: Session,
    name: Name,
    *,
    to: Annotated[str, option("Where to move it: nats://HOST:PORT or files:DIR", "STORE")],
    keep: Annotated[bool, flag("Keep a closed, readable copy here", "--keep")] = False,
) -> None:
    """Move a team to another store.

    Moves the whole history. No agent may be working. The copy is compared with the original before
    the team is removed here. If the move is interrupted, run the same command again.
    """
    where = _full(to)

    def tell(stage: Stage, events: int) -> None:
        if not session.json:
            session.page.line(_SAID[stage].format(events=events))

    async def run(app: App, team: str) -> Moved:
        by = await session.identity.acts(app.teams.open(team))
        await _settle_the_dead(app, team, by=by)
        async with aclosing(open_store_at(where, app.settings)) as target:
            return await app.teams.move(team, target, to=where, by=by, keep=keep, on_progress=tell)

    moved = with_app(session, run, name=name)
    stays = "its agents' transcripts stay in this home"
    session.page.result(
        "team-moved/1",
        {
            "name": moved.team,
            "to": moved.to,
            "events": moved.events,
            "messages": moved.messages,
            "digest": moved.digest,
            "kept": moved.kept,
        },
        f"Moved team {moved.team} to {moved.to}: {moved.events} events with"
        f" {moved.messages} messages; {stays}.",
        f"  digest {moved.digest}",
    )


async def _settle_the_dead(app: App, team: str, *, by: str) -> None:
    """Release dead agents and stop what they left running, as when a team is deleted."""
    supervisor = app.supervisor(team)
    try:
        await supervisor.tend(by=by)
        await supervisor.sweep()
    except NotFound:
        return  # An interrupted move may already have finished there.
    except Refused as error:
        if error.reason != "moved":
            raise


def _full(to: str) -> str:
    """The store with its full path, so that the log names it for whoever works elsewhere."""
    return f"{_FILES}{directory(to.removeprefix(_FILES))}" if to.startswith(_FILES) else to
