"""Running something long while somebody watches: on a live screen, or line by line."""

from __future__ import annotations

from bullpen.doors.cli.output.live import LiveWatcher
from bullpen.doors.cli.output.screen import Screen
from bullpen.doors.cli.output.watch_run import Start, Watcher, watch
from bullpen.doors.cli.session import Session
from bullpen.runs.watch.outcome import Outcome


def watched(session: Session, about: str, start: Start, *, elsewhere: str | None) -> Outcome:
    """How it ended.

    `elsewhere` is what the commands to try next must add; None if there are none.
    """
    page, added = session.page, elsewhere or ""
    if isinstance(page, Screen):
        live = LiveWatcher(page, about, kept=elsewhere is not None, elsewhere=added)
        return watch(live, start, elsewhere=elsewhere)
    return watch(Watcher(page, about, elsewhere=added), start, elsewhere=elsewhere)
