"""The terminal application: its screens and themes."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

from textual.app import App as TextualApp
from textual.binding import Binding

from bullpen.app.settings import Settings, place_of
from bullpen.doors.tui.help import help_screen
from bullpen.doors.tui.late_app import LateApp
from bullpen.doors.tui.picker import Picker
from bullpen.doors.tui.team_screen import TeamScreen
from bullpen.doors.tui.terminal_text import TerminalText
from bullpen.protocol.clock import Clock, now_ms

_COLLECT_AFTER_S = 2.0
"""When to begin to collect garbage: looking for it takes a tenth of the time to the picture."""


class TeamApp(TextualApp[None]):
    """The teams of a home in a terminal."""

    CSS_PATH = Path(__file__).with_name("bullpen.tcss")
    TITLE = "Bullpen"
    BINDINGS = [  # noqa: RUF012
        Binding("T", "next_theme", "Theme", show=False),
        Binding("ctrl+c", "quit", "Quit", show=False),
    ]

    def __init__(
        self, late_app: LateApp, *, team: str | None, plain: bool = False, clock: Clock = now_ms
    ) -> None:
        """With `plain`, the terminal shows ASCII only."""
        super().__init__()
        self._late_app, self._team, self._clock = late_app, team, clock
        self._terminal = TerminalText(plain=plain)
        # Animations cost processor time and show nothing new.
        self.animation_level = "none"

    def on_mount(self) -> None:
        self.set_class(self._terminal.plain, "plain")
        if self._team is not None:
            self._show(self._team)
        else:
            self._choose(ask=False)

    def action_next_theme(self) -> None:
        names = sorted(self.available_themes)
        self.theme = names[(names.index(self.theme) + 1) % len(names)]
        self.notify(f"Theme: {self.theme}", timeout=2, markup=False)

    def action_help(self) -> None:
        self.push_screen(help_screen(self._terminal))

    def _choose(self, *, ask: bool) -> None:
        place = place_of(self._late_app.settings)
        self.push_screen(Picker(self._late_app, place, self._terminal, ask=ask), self._picked)

    def _picked(self, team: str | None) -> None:
        if team is not None:
            self._show(team)

    def _show(self, team: str) -> None:
        screen = TeamScreen(self._late_app, team, self._terminal, self._clock)
        self.push_screen(screen, lambda _: self._choose(ask=True))


async def show(settings: Settings, team: str | None, *, plain: bool) -> None:
    """Show a team until the person quits."""
    async with LateApp(settings) as late_app:
        # The command has turned it off until the first picture.
        asyncio.get_running_loop().call_later(_COLLECT_AFTER_S, gc.enable)
        await TeamApp(late_app, team=team, plain=plain).run_async()
