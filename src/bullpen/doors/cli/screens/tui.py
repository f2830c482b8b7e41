"""`bullpen tui`: a team in a terminal, to look at and to answer."""

from __future__ import annotations

import gc
import sys

import anyio

from bullpen.by_name import load
from bullpen.doors.cli.command import examples
from bullpen.doors.cli.output.page import is_terminal
from bullpen.doors.cli.screens.extras import need_extra
from bullpen.doors.cli.session import Session
from bullpen.errors import Refused


@examples("bullpen tui", "bullpen tui -t alpha")
def tui(session: Session) -> None:
    """Watch and steer a team in the terminal.

    Answer requests, send messages, assign tasks, stop agents and attach to them; press ? for all
    keys. Without --team, you choose a team if there are several. The team keeps running when you
    leave.
    """
    need_extra("tui", "textual")
    if session.json or not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise Refused(
            "`bullpen tui` needs a terminal.",
            reason="no_terminal",
            remedy="In scripts, use bullpen ps --json and bullpen requests --json.",
        )
    plain = not sys.stdout.encoding.lower().replace("-", "").startswith("utf")

    # Nothing is thrown away before the first picture, so there is nothing to collect.
    gc.disable()

    async def look() -> None:
        await load("bullpen.doors.tui.app:show")(session.settings, session.team, plain=plain)

    anyio.run(look)
