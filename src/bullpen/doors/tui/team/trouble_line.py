"""The red line below the head: what is wrong with the team, and why work of its run waits."""

from __future__ import annotations

from textual.widgets import Static

from bullpen.doors.tui.terminal_text import TerminalText, styled

_CHARS_MAX = 400


class TroubleLine(Static):
    """What is wrong, until it is right again; nothing is shown while all is well."""

    def __init__(self, terminal: TerminalText) -> None:
        super().__init__(id="trouble")
        self._terminal = terminal
        self._wrong = self._held = ""

    def on_mount(self) -> None:
        self._draw()

    def say(self, wrong: str) -> None:
        """Show what is wrong with the team; an empty text if nothing is."""
        self._wrong = wrong
        self._draw()

    def hold(self, why: str | None) -> None:
        """Show why work of the run waits; None once it goes on."""
        self._held = why or ""
        self._draw()

    def _draw(self) -> None:
        said = " ".join(each for each in (self._wrong, self._held) if each)
        self.display = bool(said)
        if said:
            text = styled(f"! {self._terminal.fit(said, _CHARS_MAX)}")
            text.no_wrap = False
            self.update(text)
