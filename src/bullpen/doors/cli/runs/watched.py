"""Running something long while somebody watches: in the team's screen, or line by line."""

from __future__ import annotations

import gc
import sys
from functools import partial
from typing import Annotated

from bullpen.app.settings import Settings
from bullpen.by_name import load
from bullpen.doors.cli.options.option import flag
from bullpen.doors.cli.output.page import is_terminal
from bullpen.doors.cli.output.watch_run import Start, Watcher, watch, watch_on_screen
from bullpen.doors.cli.runs.notified import notified
from bullpen.doors.cli.session import Session
from bullpen.runs.watch.outcome import Outcome

Plain = Annotated[bool, flag("Print lines instead of opening the team's screen", "--plain")]


def opens_screen(session: Session, *, plain: bool) -> bool:
    """Whether a person is at a terminal that can show the team's screen, and wants it."""
    return not plain and session.at_screen and is_terminal(sys.stdin)


def watched(
    session: Session,
    about: str,
    start: Start,
    *,
    elsewhere: str | None,
    plain: bool,
    settings: Settings | None = None,
    team: str | None = None,
) -> Outcome:
    """How it ended.

    `elsewhere` is what the commands to try next must add; None if there are none. `settings` say
    where the team is, if not where the session's are; `team` is its name if it exists already.
    """
    start = notified(session, start)
    watcher = Watcher(session.page, about, elsewhere=elsewhere or "")
    if not opens_screen(session, plain=plain):
        return watch(watcher, start, elsewhere=elsewhere)
    load("bullpen.doors.cli.screens.theme:use_theme")(session)
    # Nothing is thrown away before the first picture, so there is nothing to collect.
    gc.disable()
    ascii_only = not sys.stdout.encoding.lower().replace("-", "").startswith("utf")
    show_run = load("bullpen.doors.tui.run_app:show_run")
    show = partial(show_run, settings or session.settings, about, team=team, plain=ascii_only)
    return watch_on_screen(watcher, show, start, elsewhere=elsewhere)
