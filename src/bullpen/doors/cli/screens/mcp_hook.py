"""`bullpen mcp --hook`: what the hooks of the Claude Code plugin ask."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bullpen.doors.cli.session import Session
from bullpen.doors.cli.tasks.task_commands import task_commands
from bullpen.doors.mcp.plugins.hooks import (
    BLOCK,
    HookEvent,
    event_of,
    failed_checks,
    is_first,
    program_of_this_hook,
    unfinished_task,
    unread_mail,
)
from bullpen.errors import NotFound
from bullpen.team.team import Team, Teams


def answer_hook(session: Session) -> int:
    """Answer the hook on standard input; the exit code.

    What has to be done first goes to standard error, where Claude Code reads it.
    """
    event = None if sys.stdin is None else event_of(sys.stdin.read())
    reason = "" if event is None else _reason(session, event)
    if not reason:
        return 0
    sys.stderr.write(f"{reason}\n")
    return BLOCK


def _reason(session: Session, event: HookEvent) -> str:
    if event.name == "TaskCompleted":
        return _checks(event)
    text, key = ("", "") if event.name == "Stop" else _unfinished(event)
    if not text:
        pids = program_of_this_hook()

        async def unread(teams: Teams) -> tuple[str, str]:
            return await unread_mail(teams, event, pids)

        text, key = session.with_teams(unread)
    return text if text and is_first(session.settings.home, event, key) else ""


def _unfinished(event: HookEvent) -> tuple[str, str]:
    async def look(team: Team) -> tuple[str, str]:
        return await unfinished_task(team, event)

    try:
        return _of_claude_code(event).with_team(look) if event.team else ("", "")
    except NotFound:
        return "", ""


def _checks(event: HookEvent) -> str:
    own = _of_claude_code(event)

    async def look(team: Team) -> str:
        return await failed_checks(await task_commands(own, team), event)

    try:
        return own.with_team(look) if event.team and event.task else ""
    except NotFound:
        # A list of tasks without a team, or a team that nobody but Claude Code knows of.
        return ""


def _of_claude_code(event: HookEvent) -> Session:
    """A command on the team that Claude Code itself keeps, in its own folder."""
    home = os.environ.get("CLAUDE_CONFIG_DIR") or str(Path("~/.claude").expanduser())
    return Session(home=home, team=event.team)
