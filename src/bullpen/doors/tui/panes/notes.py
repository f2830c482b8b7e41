"""The page of the team's notes: the plan first, each with who wrote it and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text
from textual.app import ComposeResult

from bullpen.doors.tui.line_view import Blocks, Lines
from bullpen.doors.tui.panes.pane import Pane, TeamLook, among
from bullpen.doors.tui.terminal_text import TerminalText, clock, styled
from bullpen.protocol.record.note import Note, in_order

_NAME = 24
_WHO = 16
_EMPTY = "No notes yet. Agents write notes here, or: bullpen notes write"


class NotesPane(Pane):
    """A list of notes. Enter shows the whole text."""

    def __init__(self, terminal: TerminalText) -> None:
        self._lines = Lines()
        super().__init__(terminal, dom_id="notes", main=self._lines)
        self._notes: Sequence[Note] = ()
        self._called: Callable[[str], str] = lambda name: name

    def compose(self) -> ComposeResult:
        yield self._lines

    def show(self, look: TeamLook) -> None:
        self._called = look.name
        every = in_order(look.story.notes)
        self._notes = [each for each in every if among(self.words, each.name, each.text)]
        self._lines.put(len(self._notes) or 1, self._row)

    def details(self) -> tuple[str, Blocks] | None:
        at = self._lines.cursor
        if at is None or at >= len(self._notes):
            return None
        note = self._notes[at]
        return f"{note.name}, version {note.version} by {self._called(note.author)}", [
            (note.text, "")
        ]

    def _row(self, number: int, width: int) -> Text:
        if not self._notes:
            empty = "Nothing matches." if self.words else _EMPTY
            return styled(self.terminal.fit(empty, width), "muted")
        note = self._notes[number]
        line = self.terminal.column(note.name, _NAME, "")
        line.append_text(styled(f" {clock(note.time_ms)} ", "muted"))
        line.append_text(self.terminal.column(self._called(note.author), _WHO, ""))
        first = next((each.strip("# ") for each in note.text.split("\n") if each.strip("# ")), "")
        room = max(8, width - _NAME - _WHO - 12)
        line.append_text(styled(f" {self.terminal.fit(first, room)}", "muted"))
        return line
