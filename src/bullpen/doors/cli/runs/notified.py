"""A run that notifies the person at its terminal when it needs them, and when it ends."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from bullpen.by_name import load
from bullpen.doors.cli.output.page import is_terminal
from bullpen.doors.cli.output.watch_run import Start
from bullpen.doors.cli.session import Session
from bullpen.errors import BullpenError
from bullpen.runs.watch.outcome import Outcome, Progress, Watch
from bullpen.team.agents.verdict import MANNERS

if TYPE_CHECKING:
    from bullpen.doors.actions.notices import ScreenNotifier


def notified(session: Session, start: Start) -> Start:
    """The same run, with the notifications that a person at a terminal has configured."""
    if session.json or not is_terminal(sys.stderr):
        return start
    found: ScreenNotifier = load("bullpen.doors.actions.notices:notifier")(
        session.setting("notify")
    )
    if not found.is_on:
        return start
    if found.problem is not None:
        session.page.warn(found.problem)

    async def run(watch: Watch) -> Outcome:
        def saw(progress: Progress) -> None:
            watch(progress)
            found.waiting((progress.team, each) for each in progress.snapshot.pending)

        try:
            outcome = await start(saw)
            title = f"Bullpen: {outcome.team} {MANNERS[outcome.status].did}"
            found.show(title, outcome.summary or outcome.cause or "")
            return outcome
        except BullpenError as error:
            found.show("Bullpen: the run failed", error.message)
            raise
        finally:
            found.close()

    return run
