"""What a command shows on a terminal: tables and colours.

Every text goes through `rich.text.Text`, so that markup in it is shown and not carried out.
"""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bullpen.doors.cli.output.page import Draw, Page, Row, is_terminal
from bullpen.view.text import Cell, one_line, visible

STYLES = {
    "": "",
    "good": "green",
    "bad": "bold red",
    "attention": "yellow",
    "muted": "dim",
    "strong": "bold",
    # The colours of teammates that rich knows by another name; it knows the others as they are.
    "purple": "magenta",
    "orange": "dark_orange",
    "pink": "hot_pink",
    "blue": "blue",
    "green": "green",
    "yellow": "yellow",
    "cyan": "cyan",
    "red": "red",
}

_GAPS = (3, 2, 1)
"""How many blanks may stand between two columns of a table, best first."""

_CELL_MAX = 400
"""A cell longer than this is cut: one row must not fill the screen."""


class Screen(Page):
    """Standard output when it is a terminal. Honours NO_COLOR."""

    draws = True

    def __init__(self) -> None:
        super().__init__()
        self.console = Console(
            file=sys.stdout,
            color_system=None if os.environ.get("NO_COLOR") else "auto",
            highlight=False,
            markup=False,
            emoji=False,
        )
        self._frame: list[RenderableType] | None = None

    def line(self, line: str | Cell = "") -> None:
        """Write one line."""
        self.put(_styled(line))

    def title(self, text: str) -> None:
        """Write a line that begins a section."""
        self.put(Text(one_line(text), style="bold"))

    def block(self, text: str, *, indent: int = 0, style: str = "") -> None:
        """Write a text of several lines, whole."""
        shown = Text(visible(text).expandtabs(4), style=STYLES.get(style, style))
        self.put(Padding(shown, (0, 0, 0, indent), expand=False))

    def drawing(self, lines: Sequence[str]) -> None:
        """Write lines whose spaces matter."""
        for line in lines:
            text = visible(line).replace("\n", " ").rstrip()
            self.put(Text(text, no_wrap=True, overflow="ellipsis"))

    def table(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Write rows under their column names."""
        shown = [[_styled(cell) for cell in row] for row in rows]
        texts = [[name, *(row[at].plain for row in shown)] for at, name in enumerate(columns)]
        gap, widths = column_widths(texts, self.console.width)
        padding = (0, gap // 2, 0, (gap - 1) // 2)
        table = Table(
            box=SIMPLE_HEAD,
            padding=padding,
            pad_edge=False,
            show_edge=False,
            header_style="bold",
        )
        for name, width in zip(columns, widths, strict=True):
            table.add_column(name, overflow="fold", width=width)
        for row in shown:
            table.add_row(*row)
        self.put(table)

    def fields(self, rows: Sequence[tuple[str, str | Cell]]) -> None:
        """Write names and values, one pair a line; values that are empty are left out."""
        grid = Table.grid(padding=(0, 2, 0, 0))
        for name, value in rows:
            text = _styled(value)
            if text.plain:
                grid.add_row(Text(f"{name}:", style="dim"), text)
        self.put(grid)

    @contextmanager
    def frames(self) -> Iterator[Callable[[Draw], None]]:
        """Give a function that shows one picture in the place of the one before."""
        # A key that shows would move the cursor, and the next picture with it.
        with deaf(), Live(console=self.console, auto_refresh=False) as live:

            def show(draw: Draw) -> None:
                self._frame = []
                try:
                    draw(self)
                    live.update(Group(*self._frame), refresh=True)
                finally:
                    self._frame = None

            yield show

    def put(self, what: RenderableType) -> None:
        """Show anything that rich can draw."""
        if self._frame is None:
            self.console.print(what)
        else:
            self._frame.append(what)


def column_widths(columns: Sequence[Sequence[str]], width: int) -> tuple[int, list[int]]:
    """The space between the columns of a table, and their widths, with a title as first text.

    The widest columns become narrower, but no word is broken while there is another way.
    """
    widths = [max(map(cell_len, texts)) for texts in columns]
    least = [
        max(cell_len(word) for text in texts for word in [*text.split(), ""]) for texts in columns
    ]
    gap = next((gap for gap in _GAPS if sum(least) + gap * (len(least) - 1) <= width), _GAPS[-1])
    too_wide = sum(widths) + gap * (len(widths) - 1) - width
    for _ in range(min(too_wide, sum(widths) - len(widths))):
        # Tuples compare by their first part: a column that has only whole words left comes last.
        widest = max(range(len(widths)), key=lambda at: (widths[at] > least[at], widths[at]))
        widths[widest] -= 1
    return gap, widths


@contextmanager
def deaf() -> Iterator[None]:
    """Neither show what is typed nor hand it to the shell afterwards; Ctrl-C is heard."""
    if not is_terminal(sys.stdin):
        yield
        return
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    silent = list(before)
    silent[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(keyboard, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        # What was typed meanwhile is dropped with it.
        termios.tcsetattr(keyboard, termios.TCSAFLUSH, before)


def _styled(cell: str | Cell) -> Text:
    text, style = (cell, "") if isinstance(cell, str) else cell
    text = one_line(text)
    if len(text) > _CELL_MAX:
        text = text[: _CELL_MAX - 1] + "…"
    return Text(text, style=STYLES.get(style, ""), overflow="fold")
