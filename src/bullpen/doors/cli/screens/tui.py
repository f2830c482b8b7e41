"""`bullpen tui`: a team in a terminal, to look at and to answer."""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from bullpen.app.stores import open_teams_near
from bullpen.by_name import load
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.output.page import is_terminal
from bullpen.doors.cli.screens.theme import use_theme
from bullpen.doors.cli.session import Session
from bullpen.errors import BullpenError, NotFound, Refused

if TYPE_CHECKING:
    from bullpen.doors.actions.notices import ScreenNotifier

_LOOK_EVERY_S = 2.0


@examples("bullpen tui", "bullpen tui -t alpha")
def tui(session: Session) -> None:
    """Watch and steer a team in the terminal.

    Answer requests, send messages, assign tasks, stop agents and attach to them; press ? for all
    keys. Without --team, it is the latest team of this directory, or you choose one. The team keeps
    running when you leave.
    """
    if session.json or not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise Refused(
            "`bullpen tui` needs a terminal.",
            reason="no_terminal",
            remedy="In scripts, use bullpen ps --json and bullpen requests --json.",
        )
    use_theme(session)
    plain = not sys.stdout.encoding.lower().replace("-", "").startswith("utf")
    team = _default_team(session)

    # Nothing is thrown away before the first picture, so there is nothing to collect.
    gc.disable()

    async def look() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(_notify, session, team)
            await load("bullpen.doors.tui.app:show")(session.settings, team, plain=plain)
            group.cancel_scope.cancel()

    anyio.run(look)


def _default_team(session: Session) -> str | None:
    """The team that is meant; None if a person has to choose one."""
    try:
        return session.with_teams(session.resolved)
    except (NotFound, Refused):
        return None


async def _notify(session: Session, team: str | None) -> None:
    """Notify the person of requests that wait for them, as they have configured it."""
    ways = session.setting("notify")
    found: ScreenNotifier = load("bullpen.doors.actions.notices:notifier")(ways)
    if not found.is_on:
        return
    search = load("bullpen.doors.actions.request_lookup:search")
    async with open_teams_near(session.settings) as teams:
        while True:
            # What cannot be read now is read the next time; the screen says what is wrong.
            with suppress(BullpenError):
                waiting = (await search(teams, team)).waiting
                found.waiting((each.team, each.request) for each in waiting)
            await anyio.sleep(_LOOK_EVERY_S)
