"""`bullpen mcp install` and `uninstall`: our server in the configuration of another program."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bullpen.cli.command import command
from bullpen.cli.session import Session, directory
from bullpen.cli.text import say
from bullpen.errors import Unavailable

if TYPE_CHECKING:
    from bullpen.app import Settings
    from bullpen.mcp.clients import Server
    from bullpen.mcp.installing import Change, Place
    from bullpen.office import Office

Program = Annotated[
    Literal["claude", "codex", "gemini", "opencode", "cursor"],
    typer.Argument(metavar="PROGRAM", help="claude, codex, gemini, opencode or cursor."),
]
InScope = Annotated[
    Literal["project", "user"],
    typer.Option("--scope", help="This directory's file, or the one for all you do."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]


def register(app: typer.Typer) -> None:
    """Make these functions commands of `app`."""
    command(
        app,
        "install",
        examples=(
            "bullpen mcp install claude --team alpha --as carol",
            "bullpen mcp install codex -t alpha --as dave --scope user --yes",
            "bullpen mcp install gemini -t alpha --as eve --tools coordination --dry-run",
        ),
    )(install)
    command(
        app,
        "uninstall",
        examples=("bullpen mcp uninstall claude", "bullpen mcp uninstall codex --scope user"),
    )(uninstall)


def need_library() -> None:
    """Refuse to go on without the library for the protocol, which an extra installs.

    Raises:
        Unavailable: it is not installed.
    """
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        raise Unavailable(
            "This needs the package mcp, which is not installed.",
            remedy="Run: pip install 'bullpen[mcp]'",
        )


def install(
    session: Session,
    program: Program,
    *,
    scope: InScope = "project",
    tools: Annotated[
        Literal["all", "coordination", "read-only"],
        typer.Option("--tools", help="Which of the team's tools it gets."),
    ] = "all",
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Connect a program to a team, as the member that --as names.

    Shows what is to be written into the program's own configuration, asks, and writes it. From
    then on every session of the program that reads this file is that member, so give each
    program a name of its own. Nothing else in the file is touched.
    """
    from bullpen.mcp.clients import CLIENTS
    from bullpen.mcp.installing import installing

    session.refuse_agents("connect a program")
    need_library()
    client = CLIENTS[program]
    change = installing(client, scope, _server(session, tools), _here())
    if not change.is_needed:
        session.page.result(
            _value(change, written=False), f"{change.path} says so already; nothing was changed."
        )
        return
    after = client.next[scope].format(title=client.title)
    _carry_out(session, change, after, yes=yes, dry_run=dry_run)


def uninstall(
    session: Session,
    program: Program,
    *,
    scope: InScope = "project",
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Disconnect a program from its team.

    Takes the entry out of the program's configuration. The member stays in the team, with its
    mail: bullpen member remove NAME takes it out.
    """
    from bullpen.mcp.clients import CLIENTS
    from bullpen.mcp.installing import uninstalling

    session.refuse_agents("disconnect a program")
    client = CLIENTS[program]
    change = uninstalling(client, scope, _here())
    after = f"Sessions of {client.title} that run now stay connected until they end."
    _carry_out(session, change, after, yes=yes, dry_run=dry_run)


async def _named(office: Office, team: str) -> tuple[Settings, str]:
    """The settings and the team, if it exists and the name can be that of a member."""
    from bullpen.protocol.names import check_new_name

    member = office.settings.agent
    config = await office.teams.open(team).agents.config()
    if config.member(member) is None:
        check_new_name(member, kind="member")
    return office.settings, team


def _server(session: Session, tools: str) -> Server:
    """What the program is to start."""
    from bullpen.app import settings_from
    from bullpen.mcp.installing import server_of, this_program

    settings, team = session.with_office(_named)
    home = os.path.abspath(settings.home)
    usual = settings_from({"HOME": os.environ.get("HOME", "")}).home
    return server_of(
        this_program(sys.argv[0]),
        team=team,
        member=settings.agent,
        tools=tools,
        home=None if home == os.path.abspath(usual) else home,
    )


def _here() -> Place:
    from bullpen.mcp.installing import Place

    return Place(Path(directory(None)), os.environ)


def _carry_out(session: Session, change: Change, after: str, *, yes: bool, dry_run: bool) -> None:
    from bullpen.mcp.installing import write

    shown = _shown(change)
    if dry_run:
        session.page.result(_value(change, written=False), *shown, "Nothing was written.")
        return
    if not yes:
        # With the question, so that both reach whoever answers it.
        for line in shown:
            say(line)
    session.confirm(
        f"Write {change.path}?", yes=yes, why="This changes the configuration of another program"
    )
    write(change)
    told = shown if yes else []
    session.page.result(_value(change, written=True), *told, f"Wrote {change.path}. {after}")


def _shown(change: Change) -> list[str]:
    """The file, and our entry as it is in it and as it will be, line by line."""
    note = " (a new file)" if change.before is None else ""
    return [
        f"{change.path}{note}:",
        *(f"- {line}" for line in change.removed.splitlines()),
        *(f"+ {line}" for line in change.added.splitlines()),
    ]


def _value(change: Change, *, written: bool) -> dict[str, Any]:
    return {
        "path": str(change.path),
        "scope": change.scope,
        "removed": change.removed or None,
        "added": change.added or None,
        "written": written,
    }
