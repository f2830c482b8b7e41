"""`bullpen team move`: take a team to another store, with its whole history."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer

from bullpen.cli.command import command
from bullpen.cli.session import Session, directory
from bullpen.cli.team import Name
from bullpen.errors import NotFound, Refused

if TYPE_CHECKING:
    from bullpen.office import Office
    from bullpen.team.moving import Moved, Stage

_FILES = "files:"

_SAID: dict[Stage, str] = {
    "closed": "Closed the team here.",
    "copied": "Copied {events} events.",
    "restored": "Restored {events} events there.",
    "compared": "Compared {events} events, all records and all mail: equal.",
    "opened": "Opened the team there.",
    "removed": "Removed it here.",
}


def register(teams: typer.Typer) -> None:
    """Make this function a command of `bullpen team`."""
    command(
        teams,
        "move",
        examples=(
            "bullpen team move alpha --to nats://127.0.0.1:4222",
            "bullpen team move alpha --to files:/srv/teams --keep",
        ),
    )(move)


def move(
    session: Session,
    name: Name,
    *,
    to: Annotated[
        str,
        typer.Option(metavar="STORE", help="Where to: nats://HOST:PORT or files:DIR."),
    ],
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep a copy here that is closed and can be read.")
    ] = False,
) -> None:
    """Move a team to another store, with its whole history.

    Nobody may be at work in it. What was copied is compared before the team is removed here. If
    it is cut short, the same command finishes it.
    """
    where = _full(to)

    def tell(stage: Stage, events: int) -> None:
        if not session.json:
            session.page.line(_SAID[stage].format(events=events))

    async def run(office: Office, team: str) -> Moved:
        from bullpen.app import open_store_at

        await _settle_the_dead(office, team, by=session.actor)
        async with aclosing(open_store_at(where, office.settings)) as target:
            return await office.teams.move(
                team, target, to=where, by=session.actor, keep=keep, on_progress=tell
            )

    moved = session.with_office(run, name=name)
    stays = "the transcripts of its agents stay in the home here"
    session.page.result(
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


async def _settle_the_dead(office: Office, team: str, *, by: str) -> None:
    """Give up agents that are dead, and end what they left running, as when a team is deleted."""
    supervisor = office.supervisor(team)
    try:
        await supervisor.tend(by=by)
        await supervisor.sweep()
    except NotFound:
        return  # It may have arrived already, in a move that was cut short at its very end.
    except Refused as error:
        if error.reason != "moved":
            raise


def _full(to: str) -> str:
    """The store with its full path, so that the log names it for whoever works elsewhere."""
    return f"{_FILES}{directory(to.removeprefix(_FILES))}" if to.startswith(_FILES) else to
