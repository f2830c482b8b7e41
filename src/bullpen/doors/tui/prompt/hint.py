"""The line below the input: the keys, or what came of the last action."""

from __future__ import annotations

from textual.timer import Timer
from textual.widgets import Static

from bullpen.doors.tui.terminal_text import TerminalText, styled

_KEYS = (
    "? help", "/ commands", "shift+down teammate", "esc interrupt", "shift+tab mode",
    "ctrl+t tasks", "F3 diff",
)  # fmt: skip
_TOLD_S = 6.0
_BAD_S = 15.0


class Hint(Static):
    """Shows the keys, and for a while what was told."""

    def __init__(self, terminal: TerminalText) -> None:
        super().__init__(id="hint")
        self._terminal = terminal
        self._timer: Timer | None = None

    def on_mount(self) -> None:
        self._show_keys()

    def on_resize(self) -> None:
        if self._timer is None:
            self._show_keys()

    def tell(self, message: str, more: str = "", *, bad: bool = False) -> None:
        """Show a message for a while; of an error, all of it."""
        if self._timer is not None:
            self._timer.stop()
        text = styled(self._terminal.fit(" ".join(part for part in (message, more) if part), 600))
        text.stylize("bold red" if bad else "bold")
        text.no_wrap = not bad
        text.overflow = "ellipsis" if not self._terminal.plain else "crop"
        self.update(text)
        self._timer = self.set_timer(_BAD_S if bad else _TOLD_S, self._show_keys)

    def _show_keys(self) -> None:
        self._timer = None
        line = styled("")
        dot = f" {self._terminal.glyph('dot')} "
        for key in _KEYS:
            part = f"{dot if line.plain else ''}{key}"
            if line.cell_len + len(part) > self.size.width:
                break
            line.append_text(styled(part, "muted"))
        self.update(line)
