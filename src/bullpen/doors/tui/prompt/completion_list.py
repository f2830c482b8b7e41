"""The list above the input line: the commands and names that a person may mean."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.widgets import Static

from bullpen.doors.tui.prompt.commands import Completion, completions
from bullpen.doors.tui.terminal_text import TerminalText, styled

_ROWS_LEAST, _ROWS_MAX = 4, 10


class CompletionList(Static):
    """What the text in the line may become. Tab and Enter take the marked one."""

    def __init__(self, terminal: TerminalText) -> None:
        super().__init__(id="completions")
        self._terminal = terminal
        self._found: list[Completion] = []
        self._at = 0
        self._moved = False
        self.display = False

    @property
    def is_open(self) -> bool:
        return bool(self._found)

    def offer(self, text: str, names: Sequence[str]) -> None:
        """Show what this text may become."""
        found = completions(text, names)
        if [each.text for each in found] == [text]:
            found = []
        if found != self._found:
            self._found, self._at, self._moved = found, 0, False
        self._draw()

    def close(self) -> None:
        self._found = []
        self._draw()

    def move(self, by: int) -> None:
        self._at = (self._at + by) % max(1, len(self._found))
        self._moved = True
        self._draw()

    def best(self) -> str | None:
        """The text of the marked row."""
        return self._found[self._at].text if self._found else None

    def taken(self, text: str) -> str | None:
        """What Enter makes of a text: the marked row, unless the text is whole already.

        A word that is begun is completed. Where none is begun, only a row that was moved to.
        """
        best = self.best()
        if best is None or best.strip() == text.strip():
            return None
        return best if self._moved or not text.endswith(" ") else None

    def _draw(self) -> None:
        self.display = bool(self._found)
        if not self._found:
            return
        width = self.app.size.width - 2
        room = min(_ROWS_MAX, max(_ROWS_LEAST, self.app.size.height // 5))
        if len(self._found) > room:
            # The last line says that there are more.
            room -= 1
        begin = max(0, min(self._at - room // 2, len(self._found) - room))
        rows = self._found[begin : begin + room]
        column = min(28, max(len(row.shown) for row in self._found))
        lines = []
        for number, row in enumerate(rows, begin):
            line = self._terminal.column(row.shown, column, "strong")
            line.append_text(styled(f"  {self._terminal.fit(row.about, width - column - 4)}"))
            mark = self._terminal.glyph("then") if number == self._at else " "
            lines.append(styled(f"{mark} ", "attention").append_text(line))
        if more := len(self._found) - len(rows):
            lines.append(styled(f"  {more} more: press Down, or type on", "muted"))
        self.update(Text("\n").join(lines))
