"""The team screen of a run: the run goes on beside it, and the screen closes when it ends."""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio

from bullpen.app.settings import Settings
from bullpen.doors.terminal.closed import endings
from bullpen.doors.tui.app import TeamApp
from bullpen.doors.tui.late_app import LateApp
from bullpen.doors.tui.team_screen import AGAIN_S, TeamScreen
from bullpen.runs.watch.outcome import Outcome, Progress, Watch
from bullpen.team.agents.verdict import MANNERS

Start = Callable[[Watch], Awaitable[Outcome]]

STOPPING = "Stopping the agents. Press Ctrl-C again to quit at once."
ENDED = "The run has ended. Close this page to leave."

_READS_S = 120.0
_LOOK_S = 0.2


class RunApp(TeamApp):
    """The screen of a team, and the run of that team beside it."""

    is_run = True

    def __init__(
        self, late_app: LateApp, start: Start, *, about: str, team: str | None, plain: bool
    ) -> None:
        """`about` is the goal or the file of the run; `team` its name, if it has one already."""
        super().__init__(late_app, team=team, about=about, plain=plain)
        self.outcome: Outcome | None = None
        self.quit_at_once = False
        self._start = start
        self._error: Exception | None = None
        self._is_named = False
        self._asked_s = -math.inf
        self._held: str | None = None
        self._work = anyio.CancelScope()
        self._shown = anyio.Event()
        # The run has ended, or the person does not wait until it has.
        self._over = anyio.Event()

    async def run_beside(
        self, show: Callable[[], Awaitable[object]], leave: Callable[[str | None], object]
    ) -> Outcome | None:
        """Run with a screen that `show` shows until it is closed. Raises what the run raises.

        `leave` ends this process for a person who does not wait; it gets the name of the team.
        """
        async with anyio.create_task_group() as group:
            group.start_soon(self._run)
            group.start_soon(self._heed_signals)
            await show()
            if not self.quit_at_once:
                # The run has ended, or its screen was closed by an error.
                self._work.cancel()
                self._shown.set()
                await self._over.wait()
            if self.quit_at_once:
                leave(self.team)
            group.cancel_scope.cancel()
        if self._error is not None:
            raise self._error
        return self.outcome

    def on_ready(self) -> None:
        self._shown.set()

    async def action_quit(self) -> None:
        """Stop the run in order, once it is asked for twice; after that, leave at once."""
        before_s, self._asked_s = self._asked_s, anyio.current_time()
        screen = next((each for each in self.screen_stack if isinstance(each, TeamScreen)), None)
        if self.quit_stops and screen is not None and self._asked_s - before_s > AGAIN_S:
            screen.tell("Press Ctrl-C again to stop the run. The team is kept.")
        else:
            self.stop()

    @property
    def quit_stops(self) -> bool:
        """Whether leaving would stop the run: it has begun, and neither ended nor is stopped."""
        return self._is_named and self.outcome is None and not self._work.cancel_called

    def stop(self) -> None:
        if self._work.cancel_called:
            self.quit_at_once = True
            self._over.set()
            self.exit()
            return
        self._work.cancel()
        if self.outcome is None:
            self.notify(STOPPING, timeout=60, markup=False)

    def hang_up(self) -> None:
        """Stop the run in order: its terminal was closed."""
        if not self._work.cancel_called:
            self.stop()

    async def _run(self) -> None:
        await self._shown.wait()
        try:
            with self._work:
                self.outcome = await self._start(self._saw)
                await self._read_to_the_end()
        except Exception as error:
            self._error = error
        finally:
            self._over.set()
            self.exit()

    async def _read_to_the_end(self) -> None:
        """Leave a page that the person reads open for a while: the run has ended behind it."""
        if self._has_page:
            self.notify(ENDED, timeout=_READS_S, markup=False)
        for _ in range(round(_READS_S / _LOOK_S)):
            if not self._has_page:
                return
            await anyio.sleep(_LOOK_S)

    @property
    def _has_page(self) -> bool:
        return self.is_running and not isinstance(self.screen_stack[-1], TeamScreen)

    def _saw(self, progress: Progress) -> None:
        # In the screen's own task: this one belongs to the run.
        if not self._is_named:
            self._is_named = True
            self.call_later(self.name_team, progress.team)
        if progress.held != self._held:
            self._held = progress.held
            self.call_later(self.hold, None if self._held is None else _in_short(self._held))
        for text in progress.told:
            # What is held is shown until it is not any more.
            if self._held is None or self._held not in text:
                self.call_later(self.notify, text, markup=False)

    async def _heed_signals(self) -> None:
        with endings() as signals:
            async for number in signals:
                if number == signal.SIGHUP:
                    self.hang_up()
                else:
                    self.stop()


_SEE_LOG = "See: bullpen merge log"


def _in_short(held: str) -> str:
    """Why nothing is merged: what fails, and the last line of its output, which says why."""
    first, *output = [line.strip() for line in held.splitlines() if line.strip()]
    last = f" {output[-1]}" if output else ""
    # The log has the tries, which name tasks; here the branch itself is at fault.
    then = "Fix it there: merging then goes on." if "itself fails" in first else _SEE_LOG
    return f"Merging waits: {first}{last} {then}"


async def show_run(
    settings: Settings, about: str, start: Start, *, team: str | None, plain: bool
) -> Outcome | None:
    """Show a run until it has ended; None if the person ended it before there was an outcome.

    The screen opens at once, and `start` runs beside it. Raises what `start` raises.
    """
    async with LateApp(settings) as late_app:
        app = RunApp(late_app, start, about=about, team=team, plain=plain)
        return await app.run_beside(app.run_async, quit_at_once)


def quit_at_once(team: str | None) -> None:
    """Leave this process without waiting for the agents."""
    which = "" if team is None else f" -t {team}"
    said = f"Quit at once; agents may still be running. See: bullpen ps{which}"
    with suppress(OSError):
        print(said, file=sys.stderr, flush=True)
    os._exit(MANNERS["interrupted"].code)
