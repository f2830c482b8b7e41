"""Texts as a terminal shows them: harmless, cut to their room, with glyphs that it has.

Everything that is drawn is a `rich.text.Text` made here: markup in it is shown, never carried out.
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
    # The colours of members, and none but these: a style could blink or hide.
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
    "blocked": "muted", "given_up": "bad", "done": "muted",
}  # fmt: skip
_FINE = {
    "starting": "◌", "working": "●", "waiting": "◐", "idle": "○", "failed": "✗", "lost": "✗",
    "stopped": "■", "unknown": "·", "done": "✓", "queued": "◔", "in_progress": "▸", "ready": "○",
    "blocked": "·", "unproven": "?", "given_up": "✗", "lead": "★", "more": "…", "to": "→",
    "critical": "◆", "then": "▶", "dot": "·",
}  # fmt: skip
_PLAIN = {
    "starting": "^", "working": "*", "waiting": "~", "idle": "o", "failed": "x", "lost": "x",
    "stopped": "#", "unknown": ".", "done": "+", "queued": "%", "in_progress": ">", "ready": "o",
    "blocked": ".", "unproven": "?", "given_up": "x", "lead": "*", "more": "~", "to": ">",
    "critical": "!", "then": ">", "dot": "-",
}  # fmt: skip
# By what leads up, right, down and left from a point: 1, 2, 4, 8.
_FINE_LINES = " │─└││┌├─┘─┴┐┤┬┼"
_PLAIN_LINES = " |-+||++-+-+++++"
_UNCUT = 4
"""A text of so many times its room is cut before it is looked at: names can be endless."""


class Ink:
    """Makes texts for one terminal."""

    def __init__(self, *, plain: bool = False) -> None:
        """`plain`: it has no characters but ASCII."""
        self.plain = plain
        self._glyphs = _PLAIN if plain else _FINE
        self._lines = _PLAIN_LINES if plain else _FINE_LINES

    def glyph(self, name: str) -> str:
        """A sign for a state or a thing."""
        return self._glyphs[name]

    def line(self, ways: int) -> str:
        """The part of a line that leads these ways."""
        return self._lines[ways]

    def fit(self, text: str, width: int) -> str:
        """`text` on one line that is not wider; what is cut off is marked."""
        if width <= 0:
            return ""
        room = _UNCUT * width + _UNCUT
        line = one_line(self._told(text[:room]))
        if len(text) <= room and cell_len(line) <= width:
            return line
        return set_cell_size(line, width - 1).rstrip() + self._glyphs["more"]

    def column(self, text: str, width: int, style: str = "", *, right: bool = False) -> Text:
        """`text` in exactly this room."""
        line = self.fit(text, width)
        pad = " " * (width - cell_len(line))
        return styled(pad + line if right else line + pad, style)

    def state(self, state: str) -> str:
        """A state by glyph and word; its colour is in STATE_STYLES."""
        return f"{self._glyphs[state]} {state.replace('_', ' ')}"

    def wrap(self, text: str, width: int, style: str = "", *, indent: int = 0) -> list[Text]:
        """All of `text` in lines of this width."""
        pad = " " * indent
        shown = visible(self._told(text)).expandtabs(4)
        return [
            styled(pad + piece, style)
            for line in shown.split("\n")
            for piece in _broken(line, max(1, width - indent))
        ]

    def _told(self, text: str) -> str:
        if not self.plain or text.isascii():
            return text
        return text.encode("ascii", "backslashreplace").decode()


def styled(text: str, style: str = "") -> Text:
    """A text that is harmless already, in a style by its word; other words mean none."""
    return Text("", no_wrap=True, end="").append(text, STYLES.get(style, ""))


def _broken(line: str, width: int) -> list[str]:
    """A line in pieces, at spaces if that wastes less than half; nothing is left out."""
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
    """The time of day here."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().strftime("%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "--:--:--"
