"""The line below the input: the keys, or what came of the last action."""

from __future__ import annotations

from textual.timer import Timer
from textual.widgets import Static

from bullpen.doors.tui.terminal_text import TerminalText, styled

_KEYS = (
    "? help", "/ commands", "shift+down teammate", "esc interrupt", "F7 notes",
    "shift+tab mode", "ctrl+t tasks", "F3 diff",
)  # fmt: skip
_TOLD_S = 6.0
_BAD_S = 15.0


class Hint(Static):
    """Shows the keys, and for a while what was told."""

    def __init__(self, terminal: TerminalText) -> None:
        super().__init__(id="hint")
        self._terminal = terminal
        self._timer: Timer | None = None
        self._is_bad = False
        self._standing = ""

    def on_mount(self) -> None:
        self._show_keys()

    def on_resize(self) -> None:
        if self._timer is None:
            self._show_keys()

    def tell(self, message: str, more: str = "", *, bad: bool = False) -> None:
        """Show a message for a while; of an error, all of it."""
        self._forget()
        self._is_bad = bad
        text = styled(self._terminal.fit(" ".join(part for part in (message, more) if part), 600))
        text.stylize("bold red" if bad else "bold")
        text.no_wrap = not bad
        text.overflow = "ellipsis" if not self._terminal.plain else "crop"
        self.update(text)
        self._timer = self.set_timer(_BAD_S if bad else _TOLD_S, self._show_keys)

    def stand(self, words: str) -> None:
        """Show words instead of the keys until they are empty: what is typed has a meaning."""
        if words != self._standing:
            self._standing = words
            if words:
                self._forget()
            if self._timer is None:
                self._show_keys()

    def touched(self) -> None:
        """A key was pressed: an error has been read."""
        if self._is_bad:
            self._forget()
            self._show_keys()

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer, self._is_bad = None, False

    def _show_keys(self) -> None:
        self._timer, self._is_bad = None, False
        if self._standing:
            self.update(styled(self._terminal.fit(self._standing, 200), "attention"))
            return
        line = styled("")
        dot = f" {self._terminal.glyph('dot')} "
        for key in _KEYS:
            part = f"{dot if line.plain else ''}{key}"
            if line.cell_len + len(part) > self.size.width:
                break
            line.append_text(styled(part, "muted"))
        self.update(line)
