"""`bullpen team mirror`: a team kept as files too, for a program that knows only files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bullpen.cli import complete
from bullpen.cli.command import command
from bullpen.cli.session import Session, directory

if TYPE_CHECKING:
    from collections.abc import Callable

    from bullpen.cli.render import Page
    from bullpen.fleet.bridge.running import Status
    from bullpen.office import Office


def register(app: typer.Typer) -> None:
    """Make this function a command of `app`."""
    command(
        app,
        "mirror",
        examples=(
            "bullpen team mirror alpha --into ~/.claude --member ann",
            "bullpen team mirror alpha --into ./files --json",
        ),
    )(mirror)


def mirror(
    session: Session,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="The team; the same as -t NAME.",
            show_default=False,
            autocompletion=complete.team_names,
        ),
    ] = None,
    *,
    into: Annotated[
        str, typer.Option("--into", metavar="DIR", help="The home of the program that uses files.")
    ],
    member: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A member that lives there. Can be repeated. [default: all but our agents]",
            show_default=False,
            autocompletion=complete.member_names,
        ),
    ] = None,
) -> None:
    """Keep a team as files too, so that a Claude Code here takes part in it.

    What the members that live there do in DIR is done in the team, under its rules, and DIR shows
    the team as it is. It runs until it is stopped, and goes on where it was when it is started
    again. While the team cannot be reached, DIR can be read, and what is written there is sent
    later. With --json it says on one line how it stands, whenever that changes.
    """
    session.refuse_agents("mirror a team")
    where = directory(into)

    async def run(office: Office, team: str) -> None:
        await _run(office, team, where, member or [], _teller(session.page))

    session.with_office(run, name=name)


async def _run(
    office: Office, team: str, where: str, members: list[str], tell: Callable[[Status], None]
) -> None:
    from contextlib import aclosing
    from pathlib import Path

    from bullpen.app import open_store
    from bullpen.fleet.bridge.mirror import TeamMirror
    from bullpen.fleet.bridge.running import Running
    from bullpen.store.files.store import FileStore

    home = Path(where)
    async with aclosing(FileStore(home)) as near, aclosing(open_store(office.settings)) as far:
        work = TeamMirror(near, far, team, home=home, members=members)
        await Running(work, near, far, tell=tell).run()


def _teller(page: Page) -> Callable[[Status], None]:
    """What says how a mirror stands: all of it to programs, what is new of it to people."""
    shown: list[Status] = []

    def tell(status: Status) -> None:
        if page.json:
            from dataclasses import asdict

            page.json_line(asdict(status))
            return
        before = shown[-1] if shown else None
        shown[:] = [status]
        if before is None or before.state != status.state:
            page.line(_stands(status))
        if status.refused > (0 if before is None else before.refused):
            page.line(f"Refused: {status.last_refusal}")
        page.flush()

    return tell


def _stands(status: Status) -> str:
    if status.state == "in step":
        return f"Team {status.team} is in {status.home}, and kept in step."
    heard = status.contact_age_ms
    ago = "never yet" if heard is None else f"{heard / 1000:.0f} s ago"
    return f"Team {status.team} is away. Last heard of {ago}. {status.problem}"
