"""`bullpen mcp install` and `uninstall`: our server in the configuration of another program."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from bullpen.app.app import App
from bullpen.app.settings import Settings, settings_from
from bullpen.doors.cli.app_session import with_app
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options.option import argument, flag, option
from bullpen.doors.cli.output.text import say
from bullpen.doors.cli.screens.extras import need_extra
from bullpen.doors.cli.screens.plugin_install import install_plugin, uninstall_plugin
from bullpen.doors.cli.session import Session, directory
from bullpen.doors.mcp.install.clients import CLIENTS, ServerEntry
from bullpen.doors.mcp.install.install import (
    Change,
    ConfigPlace,
    installing,
    server_of,
    this_program,
    uninstalling,
    write,
)
from bullpen.protocol.names import check_new_name

Program = Annotated[
    Literal["claude", "codex", "gemini", "opencode", "cursor"],
    argument("claude, codex, gemini, opencode or cursor", "PROGRAM"),
]
InScope = Annotated[
    Literal["project", "user"],
    option("Configuration of this directory, or of your user account", None, "--scope"),
]
Plugin = Annotated[
    bool, flag("The plugin for your user account: tools, skill, commands, hooks", "--plugin")
]
Yes = Annotated[bool, flag("Do not ask for confirmation", "--yes")]
DryRun = Annotated[bool, flag("Show the change and write nothing", "--dry-run")]


@examples(
    "bullpen mcp install claude --team alpha --as carol",
    "bullpen mcp install codex -t alpha --as dave --scope user --yes",
    "bullpen mcp install gemini -t alpha --as eve --tools coordination --dry-run",
    "bullpen mcp install claude --plugin",
)
def install(
    session: Session,
    program: Program,
    *,
    scope: InScope = "project",
    tools: Annotated[
        Literal["all", "coordination", "read-only"],
        option("Tools the program gets", None, "--tools"),
    ] = "all",
    plugin: Plugin = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Add Bullpen to a program's MCP configuration.

    Shows the change, asks, and writes it. From then on, every session of the program that reads
    this file is the member that --as names, so use a different name for each program. Nothing else
    in the file changes.

    With --plugin, installs the plugin for Claude Code or the extension for Gemini CLI instead. It
    belongs to no team: a session creates one, or BULLPEN_TEAM names one when the program starts.
    """

    need_extra("mcp", "mcp")
    if plugin:
        if tools != "all":
            raise typer.BadParameter("--tools does not work with --plugin.")
        install_plugin(session, program, yes=yes, dry_run=dry_run)
        return
    client = CLIENTS[program]
    change = installing(client, scope, _server(session, tools), _here())
    if not change.is_needed:
        session.page.result(
            "mcp-config/1",
            _value(change, written=False),
            f"{change.path} is already up to date; nothing was changed.",
        )
        return
    after = client.next[scope].format(title=client.title)
    _carry_out(session, change, after, yes=yes, dry_run=dry_run)


@examples(
    "bullpen mcp uninstall claude",
    "bullpen mcp uninstall codex --scope user",
    "bullpen mcp uninstall claude --plugin",
)
def uninstall(
    session: Session,
    program: Program,
    *,
    scope: InScope = "project",
    plugin: Plugin = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Remove Bullpen from a program's MCP configuration.

    The member stays in the team with its messages; `bullpen member remove NAME` removes it.
    With --plugin, removes what `bullpen mcp install PROGRAM --plugin` installed.
    """

    if plugin:
        uninstall_plugin(session, program, yes=yes, dry_run=dry_run)
        return
    client = CLIENTS[program]
    change = uninstalling(client, scope, _here())
    after = f"Running sessions of {client.title} stay connected until they end."
    _carry_out(session, change, after, yes=yes, dry_run=dry_run)


async def _named(app: App, team: str) -> tuple[Settings, str]:
    """The settings and the team, if it exists and the name can be that of a member."""

    member = app.settings.agent
    config = await app.teams.open(team).agents.config()
    if config.member(member) is None:
        check_new_name(member, kind="member")
    return app.settings, team


def _server(session: Session, tools: str) -> ServerEntry:
    """What the program is to start."""

    settings, team = with_app(session, _named)
    home = os.path.abspath(settings.home)
    usual = settings_from({"HOME": os.environ.get("HOME", "")}).home
    return server_of(
        this_program(sys.argv[0]),
        team=team,
        member=settings.agent,
        tools=tools,
        home=None if home == os.path.abspath(usual) else home,
    )


def _here() -> ConfigPlace:
    return ConfigPlace(Path(directory(None)), os.environ)


def _carry_out(session: Session, change: Change, after: str, *, yes: bool, dry_run: bool) -> None:
    shown = _shown(change)
    if dry_run:
        value = _value(change, written=False)
        session.page.result("mcp-config/1", value, *shown, "Nothing was written.")
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
    value = _value(change, written=True)
    session.page.result("mcp-config/1", value, *told, f"Wrote {change.path}. {after}")


def _shown(change: Change) -> list[str]:
    """The file, and our entry as it is in it and as it will be, line by line."""
    note = " (a new file)" if change.before is None else ""
    # Links of the folders above say nothing about this file.
    is_link = change.path.is_symlink() or change.path.parent.is_symlink()
    leads = f" -> {change.target}" if is_link else ""
    return [
        f"{change.path}{leads}{note}:",
        *(f"- {line}" for line in change.removed.splitlines()),
        *(f"+ {line}" for line in change.added.splitlines()),
    ]


def _value(change: Change, *, written: bool) -> dict[str, Any]:
    return {
        "path": str(change.path),
        "target": str(change.target),
        "scope": change.scope,
        "removed": change.removed or None,
        "added": change.added or None,
        "written": written,
    }
