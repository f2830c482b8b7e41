"""Prepares text for a terminal: no control characters, cut to its width, with glyphs it can show.

Everything on the screen is a `rich.text.Text` made here: markup in it is shown, never interpreted.
"""

from __future__ import annotations

from datetime import UTC, datetime

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.text import Text

from bullpen.view.text import one_line, visible

STYLES = {
    "good": "green",
    "bad": "bold red",
    "attention": "yellow",
    "muted": "dim",
    "strong": "bold",
    "critical": "bold magenta",
    # Members' colours. No others: a style could blink or hide text.
    "purple": "magenta",
    "orange": "dark_orange",
    "pink": "hot_pink",
    "blue": "blue",
    "green": "green",
    "yellow": "yellow",
    "cyan": "cyan",
    "red": "red",
}
STATE_STYLES = {
    "starting": "attention", "working": "good", "waiting": "attention", "failed": "bad",
    "lost": "bad", "idle": "", "stopped": "muted", "unknown": "muted",
    "in_progress": "attention", "ready": "", "queued": "attention", "unproven": "attention",
    "blocked": "muted", "given_up": "bad", "merged": "muted", "done": "muted",
}  # fmt: skip
# Each glyph twice: for terminals with Unicode and for those with ASCII only.
_GLYPHS = {
    "starting": "◌^", "working": "●*", "waiting": "◐~", "idle": "○o", "failed": "✗x", "lost": "✗x",
    "stopped": "■#", "unknown": "·.", "done": "✓+", "merged": "✓+", "queued": "◔%",
    "in_progress": "▸>", "ready": "○o", "blocked": "·.", "unproven": "??", "given_up": "✗x",
    "lead": "★*", "more": "…~", "to": "→>", "critical": "◆!", "then": "▶>", "dot": "·-",
}  # fmt: skip
# Box characters, indexed by the directions that a line takes from a point: up 1, right 2,
# down 4, left 8.
_LINES = (" │─└││┌├─┘─┴┐┤┬┼", " |-+||++-+-+++++")
_READ_AHEAD = 4
"""A text longer than this many times its room is cut before it is measured: names can be huge."""


class TerminalText:
    """Prepares text for one terminal; with `plain`, one that shows ASCII only."""

    def __init__(self, *, plain: bool = False) -> None:
        self.plain = plain

    def glyph(self, name: str) -> str:
        return _GLYPHS[name][self.plain]

    def line(self, directions: int) -> str:
        """The box character of a line that goes in these directions."""
        return _LINES[self.plain][directions]

    def fit(self, text: str, width: int) -> str:
        """`text` on one line of at most this width, with a mark where it was cut."""
        if width <= 0:
            return ""
        room = _READ_AHEAD * width + _READ_AHEAD
        line = one_line(self._in_charset(text[:room]))
        if len(text) <= room and cell_len(line) <= width:
            return line
        return set_cell_size(line, width - 1).rstrip() + self.glyph("more")

    def column(self, text: str, width: int, style: str = "", *, right: bool = False) -> Text:
        line = self.fit(text, width)
        pad = " " * (width - cell_len(line))
        return styled(pad + line if right else line + pad, style)

    def state(self, state: str) -> str:
        """The glyph and the word for a state; its colour is in STATE_STYLES."""
        return f"{self.glyph(state)} {state.replace('_', ' ')}"

    def wrap(self, text: str, width: int, style: str = "", *, indent: int = 0) -> list[Text]:
        """The whole `text` in lines of this width."""
        pad = " " * indent
        shown = visible(self._in_charset(text)).expandtabs(4)
        return [
            styled(pad + piece, style)
            for line in shown.split("\n")
            for piece in _broken(line, max(1, width - indent))
        ]

    def _in_charset(self, text: str) -> str:
        if not self.plain or text.isascii():
            return text
        return text.encode("ascii", "backslashreplace").decode()


def styled(text: str, style: str = "") -> Text:
    """A text without control characters in one of STYLES; an unknown style means none."""
    return Text("", no_wrap=True, end="").append(text, STYLES.get(style, ""))


def _broken(line: str, width: int) -> list[str]:
    """The whole line in pieces, broken at a space if that uses more than half of the width."""
    pieces: list[str] = []
    at = 0
    while True:
        head = line[at : at + width + 1]
        if not head:
            return pieces or [""]
        fits = len(chop_cells(head, width)[0]) or 1
        if at + fits < len(line):
            space = head.rfind(" ", 0, fits) + 1
            fits = space if space > width // 2 else fits
        pieces.append(line[at : at + fits])
        at += fits


def clock(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().strftime("%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "--:--:--"
