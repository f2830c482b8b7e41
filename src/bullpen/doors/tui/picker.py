"""The list of teams to choose from, or how to create the first one."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Footer, Static

from bullpen.doors.tui.late_app import LateApp
from bullpen.doors.tui.line_view import Lines
from bullpen.doors.tui.terminal_text import TerminalText, styled
from bullpen.errors import BullpenError
from bullpen.protocol.clock import now_ms
from bullpen.team.team import TeamSummary
from bullpen.view.sentences import age

_LOOK_EVERY_S = 2.0
_READ_MAX = 50


class Picker(Screen[str]):
    """Lists the teams and returns the name of the chosen one."""

    BINDINGS = [Binding("q", "app.quit", "Quit"), Binding("question_mark", "app.help", "Help")]  # noqa: RUF012

    def __init__(self, late_app: LateApp, place: str, terminal: TerminalText, *, ask: bool) -> None:
        """With `ask`, a single team is not chosen automatically."""
        super().__init__()
        self._late_app, self._place = late_app, place
        self._terminal, self._ask = terminal, ask
        self._says = Static(id="says")
        self._lines = Lines()
        self._names: list[str] = []
        # What is known of each, as long as they are few enough to be read.
        self._about: dict[str, TeamSummary] = {}

    def compose(self) -> ComposeResult:
        yield self._says
        yield self._lines
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self._lines.focus()
        self.run_worker(self._look(), exit_on_error=False)
        self.set_interval(_LOOK_EVERY_S, self._look_again)

    def on_lines_chosen(self) -> None:
        at = self._lines.cursor
        if at is not None and at < len(self._names):
            self.dismiss(self._names[at])

    def _look_again(self) -> None:
        if self.is_current:
            self.run_worker(self._look(), exit_on_error=False, exclusive=True)

    async def _look(self) -> None:
        try:
            names = await self._late_app.teams.names()
        except BullpenError as error:
            self._says.update(_words(self._terminal.wrap(str(error), 76, "bad")))
            return
        if len(names) == 1 and not self._ask:
            self.dismiss(names[0])
            return
        self._ask = self._ask or len(names) > 1
        if names == self._names and names:
            return
        if len(names) <= _READ_MAX:
            self._about = {each.name: each for each in await self._late_app.teams.list()}
        self._names = list(names)
        self._lines.put(len(names), self._row)
        self._lines.display = bool(names)
        self._says.update(styled("Which team?", "strong") if names else self._no_team())

    def _no_team(self) -> Text:
        lines = [styled("There is no team yet.", "strong"), styled("")]
        lines += self._terminal.wrap(f"Looked in {self._place}.", 76, "muted")
        lines += [
            styled(""),
            styled("Watch a demo team work:        bullpen demo"),
            styled("Set up a team for a project:   bullpen init"),
            styled("Create an empty team:          bullpen team create NAME"),
            styled(""),
            styled("A new team appears here automatically.", "muted"),
        ]
        return _words(lines)

    def _row(self, number: int, width: int) -> Text:
        name = self._names[number]
        return styled(self._terminal.fit(f"  {name}{_about(self._about.get(name))}", width))


def _about(team: TeamSummary | None) -> str:
    """How old a team is, where it works and what for: names alone are often only a time."""
    if team is None:
        return ""
    made = None if team.created_at is None else age(int(team.created_at), now_ms())
    return "".join(f"  {each}" for each in (made, team.cwd, team.description) if each)


def _words(lines: list[Text]) -> Text:
    shown = Text("\n").join(lines)
    shown.no_wrap = False
    return shown
