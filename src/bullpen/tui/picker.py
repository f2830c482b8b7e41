"""Before a team is shown: which one, or how to get one."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Footer, Static

from bullpen.errors import BullpenError
from bullpen.office import Office
from bullpen.tui.ink import Ink, styled
from bullpen.tui.lines import Lines

_LOOK_EVERY_S = 2.0


class Picker(Screen[str]):
    """The teams there are; the name of the one that was picked comes back."""

    BINDINGS = [Binding("q", "app.quit", "Quit"), Binding("question_mark", "app.help", "Help")]  # noqa: RUF012

    def __init__(self, office: Office, place: str, ink: Ink, *, ask: bool) -> None:
        """`ask`: also if there is only one team."""
        super().__init__()
        self._office, self._place, self._ink, self._ask = office, place, ink, ask
        self._says = Static(id="says")
        self._lines = Lines()
        self._names: list[str] = []

    def compose(self) -> ComposeResult:
        """What there is to say, and the teams."""
        yield self._says
        yield self._lines
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Look now, and again as long as nothing is picked."""
        self._lines.focus()
        self.run_worker(self._look(), exit_on_error=False)
        self.set_interval(_LOOK_EVERY_S, self._look_again)

    def on_lines_chosen(self) -> None:
        """Take the team under the cursor."""
        at = self._lines.cursor
        if at is not None and at < len(self._names):
            self.dismiss(self._names[at])

    def _look_again(self) -> None:
        if self.is_current:
            self.run_worker(self._look(), exit_on_error=False, exclusive=True)

    async def _look(self) -> None:
        try:
            names = await self._office.teams.names()
        except BullpenError as error:
            self._says.update(_words(self._ink.wrap(str(error), 76, "bad")))
            return
        if len(names) == 1 and not self._ask:
            self.dismiss(names[0])
            return
        self._ask = True if len(names) > 1 else self._ask
        if names == self._names and names:
            return
        self._names = list(names)
        self._lines.put(len(names), self._row)
        self._lines.display = bool(names)
        self._says.update(styled("Which team?", "strong") if names else self._no_team())

    def _no_team(self) -> Text:
        lines = [styled("There is no team yet.", "strong"), styled("")]
        lines += self._ink.wrap(f"Looked in {self._place}.", 76, "muted")
        lines += [
            styled(""),
            styled("See one at work:               bullpen demo"),
            styled("Begin with one for a project:  bullpen init"),
            styled("Make an empty one:             bullpen team create NAME"),
            styled(""),
            styled("As soon as there is one, it shows here.", "muted"),
        ]
        return _words(lines)

    def _row(self, number: int, width: int) -> Text:
        return styled(self._ink.fit(f"  {self._names[number]}", width))


def _words(lines: list[Text]) -> Text:
    shown = Text("\n").join(lines)
    shown.no_wrap = False
    return shown
