"""`bullpen tui`: a team in a terminal, to look at and to answer."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from bullpen.cli.command import command
from bullpen.cli.session import Session, is_terminal
from bullpen.errors import Refused, Unavailable

if TYPE_CHECKING:
    from bullpen.office import Office


def register(app: typer.Typer) -> None:
    """Make this function a command of `app`."""
    command(app, "tui", examples=("bullpen tui", "bullpen tui -t alpha"))(tui)


def tui(session: Session) -> None:
    """Show a team in the terminal: members, tasks, mail, what waits for you.

    Answer requests, write, assign tasks, stop and attach from there; ? shows all keys. Without
    --team, and if there are several, it asks which. The team goes on when you leave.
    """
    _need_library()
    if session.json or not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise Refused(
            "There is no terminal to show it in.",
            reason="no_terminal",
            remedy="For programs there is bullpen ps --json, and bullpen requests --json.",
        )
    plain = not sys.stdout.encoding.lower().replace("-", "").startswith("utf")

    async def look(office: Office) -> None:
        from bullpen.tui.app import show

        await show(office, session.team, plain=plain)

    session.with_home(look)


def _need_library() -> None:
    from importlib.util import find_spec

    if find_spec("textual") is None:
        raise Unavailable(
            "This needs the package textual, which is not installed.",
            remedy="Run: pip install 'bullpen[tui]'",
        )
