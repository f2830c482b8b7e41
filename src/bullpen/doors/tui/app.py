"""The terminal application: its screens and themes."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import anyio
from textual.app import App as TextualApp
from textual.binding import Binding

from bullpen.app.settings import Settings, place_of
from bullpen.by_name import load
from bullpen.doors.terminal.closed import endings
from bullpen.doors.terminal.driver import TerminalDriver
from bullpen.doors.tui.late_app import LateApp
from bullpen.doors.tui.team_screen import TeamScreen
from bullpen.doors.tui.terminal_text import TerminalText
from bullpen.protocol.clock import Clock, now_ms

_COLLECT_AFTER_S = 2.0
"""When to begin to collect garbage: looking for it takes a tenth of the time to the picture."""


class TeamApp(TextualApp[None]):
    """The teams of a home in a terminal."""

    CSS_PATH = Path(__file__).with_name("bullpen.tcss")
    TITLE = "Bullpen"
    is_run = False
    """Whether a run goes on beside this screen."""

    BINDINGS = [  # noqa: RUF012
        Binding("ctrl+c", "quit", "Quit", show=False),
    ]

    def __init__(
        self,
        late_app: LateApp,
        *,
        team: str | None,
        about: str | None = None,
        plain: bool = False,
        clock: Clock = now_ms,
    ) -> None:
        """With `plain`, the terminal shows ASCII only.

        `about` is what a team is started for that has no records yet: its screen waits for it.
        """
        super().__init__(driver_class=TerminalDriver)
        self._late_app, self.team, self._clock = late_app, team, clock
        self._about = about
        self._terminal = TerminalText(plain=plain)
        # Animations cost processor time and show nothing new.
        self.animation_level = "none"

    @property
    def quit_stops(self) -> bool:
        """Whether leaving would stop a run that is under way."""
        return False

    def hang_up(self) -> None:
        """Leave: the terminal was closed."""
        self.exit()

    def on_mount(self) -> None:
        self.set_class(self._terminal.plain, "plain")
        if self._about is not None:
            self._show(None, about=self._about)
        elif self.team is not None:
            self._show(self.team)
        else:
            self._choose(ask=False)

    def name_team(self, team: str) -> None:
        """Show the team that was being started: its records are there."""
        self.team = team
        for screen in self.screen_stack:
            if isinstance(screen, TeamScreen):
                screen.begin(team)

    def hold(self, why: str | None) -> None:
        """Say why work of the run waits, until it goes on."""
        for screen in self.screen_stack:
            if isinstance(screen, TeamScreen):
                screen.hold(why)

    def action_help(self) -> None:
        self.push_screen(load("bullpen.doors.tui.help:help_screen")(self._terminal))

    def _choose(self, *, ask: bool) -> None:
        place = place_of(self._late_app.settings)
        picker = load("bullpen.doors.tui.picker:Picker")
        self.push_screen(picker(self._late_app, place, self._terminal, ask=ask), self._picked)

    def _picked(self, team: str | None) -> None:
        if team is not None:
            self._show(team)

    def _show(self, team: str | None, *, about: str = "") -> None:
        self.team = team
        screen = TeamScreen(self._late_app, team, self._terminal, self._clock, about=about)
        self.push_screen(screen, lambda _: self._choose(ask=True))


async def show(settings: Settings, team: str | None, *, plain: bool) -> None:
    """Show a team until the person quits."""
    async with LateApp(settings) as late_app:
        # The command has turned it off until the first picture.
        asyncio.get_running_loop().call_later(_COLLECT_AFTER_S, gc.enable)
        app = TeamApp(late_app, team=team, plain=plain)
        async with anyio.create_task_group() as group:
            group.start_soon(_heed_signals, app)
            await app.run_async()
            group.cancel_scope.cancel()


async def _heed_signals(app: TeamApp) -> None:
    with endings() as signals:
        async for _ in signals:
            app.hang_up()
