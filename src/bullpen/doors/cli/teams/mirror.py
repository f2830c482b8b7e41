"""`bullpen team mirror`: keep a team as files for a program that reads only files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Annotated

from bullpen.app.app import App
from bullpen.app.stores import open_store
from bullpen.doors.cli.app_session import with_app
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options import completion
from bullpen.doors.cli.options.option import option
from bullpen.doors.cli.output.page import Page
from bullpen.doors.cli.session import Session, directory
from bullpen.doors.cli.teams.team import NameIfAny
from bullpen.fleet.mirror.keep_mirrored import Running, Status
from bullpen.fleet.mirror.mirror import TeamMirror
from bullpen.store.files.store import FileStore


@examples(
    "bullpen team mirror alpha --into ~/.claude --member ann",
    "bullpen team mirror alpha --into ./files --jsonl",
)
def mirror(
    session: Session,
    name: NameIfAny = None,
    *,
    into: Annotated[str, option("Home directory of the program that reads files", "DIR", "--into")],
    member: Annotated[
        list[str] | None,
        option(
            "A member in that home [repeatable; default: all but Bullpen's agents]",
            "NAME",
            complete=completion.member_names,
        ),
    ] = None,
) -> None:
    """Keep a team on NATS as files too.

    Lets a Claude Code session on this machine take part in the team: changes in DIR are made in the
    team under its rules, and DIR shows the team. Runs until stopped, and continues where it
    stopped. While the team cannot be reached, DIR can still be read and changes are sent later.
    With --jsonl, prints its state on one line whenever it changes.
    """
    session.goes_on("`team mirror`")
    where = directory(into)

    async def run(app: App, team: str) -> None:
        await _run(app, team, where, member or [], _teller(session.page))

    with_app(session, run, name=name)


async def _run(
    app: App, team: str, where: str, members: list[str], tell: Callable[[Status], None]
) -> None:
    home = Path(where)
    async with aclosing(FileStore(home)) as near, aclosing(open_store(app.settings)) as far:
        work = TeamMirror(near, far, team, home=home, members=members)
        await Running(work, near, far, tell=tell).run()


def _teller(page: Page) -> Callable[[Status], None]:
    """Reports the state of a mirror: all of it to programs, changes to people."""
    shown: list[Status] = []

    def tell(status: Status) -> None:
        if page.json:
            page.json_line("mirror/1", status)
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
        return f"Team {status.team} is mirrored in {status.home}."
    heard = status.contact_age_ms
    ago = "never" if heard is None else f"{heard / 1000:.0f} s ago"
    return f"Team {status.team} cannot be reached (last contact: {ago}). {status.problem}"
