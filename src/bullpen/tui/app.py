"""The application: one screen after another, themes, and the terminal as it is."""

from __future__ import annotations

from pathlib import Path

from textual.app import App
from textual.binding import Binding

from bullpen.app import place_of
from bullpen.office import Office
from bullpen.store.clock import Clock, now_ms
from bullpen.tui.help import help_screen
from bullpen.tui.ink import Ink
from bullpen.tui.picker import Picker
from bullpen.tui.team_screen import TeamScreen


class TeamApp(App[None]):
    """The teams of a home in a terminal."""

    CSS_PATH = Path(__file__).with_name("bullpen.tcss")
    TITLE = "Bullpen"
    BINDINGS = [  # noqa: RUF012
        Binding("ctrl+t", "next_theme", "Theme", show=False),
        Binding("ctrl+c", "quit", "Quit", show=False),
    ]

    def __init__(
        self, office: Office, *, team: str | None, plain: bool = False, clock: Clock = now_ms
    ) -> None:
        """`plain`: the terminal has no characters but ASCII."""
        super().__init__()
        self._office, self._team, self._clock = office, team, clock
        self._ink = Ink(plain=plain)
        # A picture that moves by itself costs, and tells nothing.
        self.animation_level = "none"

    def on_mount(self) -> None:
        """Show the team that is meant, or ask which."""
        self.set_class(self._ink.plain, "plain")
        if self._team is not None:
            self._show(self._team)
        else:
            self._choose(ask=False)

    def action_next_theme(self) -> None:
        """Take the next theme."""
        names = sorted(self.available_themes)
        self.theme = names[(names.index(self.theme) + 1) % len(names)]
        self.notify(f"Theme: {self.theme}", timeout=2, markup=False)

    def action_help(self) -> None:
        """Show all keys."""
        self.push_screen(help_screen(self._ink))

    def _choose(self, *, ask: bool) -> None:
        place = place_of(self._office.settings)
        self.push_screen(Picker(self._office, place, self._ink, ask=ask), self._picked)

    def _picked(self, team: str | None) -> None:
        if team is not None:
            self._show(team)

    def _show(self, team: str) -> None:
        screen = TeamScreen(self._office, team, self._ink, self._clock)
        self.push_screen(screen, lambda _: self._choose(ask=True))


async def show(office: Office, team: str | None, *, plain: bool) -> None:
    """Show a team until somebody has seen enough."""
    await TeamApp(office, team=team, plain=plain).run_async()
