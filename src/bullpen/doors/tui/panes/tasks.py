"""The tasks of a team: a board by state, or their graph."""

from __future__ import annotations

from collections.abc import Callable

from rich.text import Text
from textual.app import ComposeResult
from textual.widgets import ContentSwitcher

from bullpen.doors.tui.line_view import Blocks, Lines
from bullpen.doors.tui.panes.graph_lines import drawn
from bullpen.doors.tui.panes.pane import Pane, Selected, TeamLook, among
from bullpen.doors.tui.team.task_text import ids, task_text
from bullpen.doors.tui.terminal_text import STATE_STYLES, TerminalText, styled
from bullpen.view.cards import TaskCard
from bullpen.view.sentences import age
from bullpen.view.task_state import TASK_STATES, TaskState, state_word

_OWNER = 12


class TasksPane(Pane):
    """The board of tasks, and their graph."""

    def __init__(self, terminal: TerminalText) -> None:
        self._board = Lines(dom_id="board")
        self._graph = Lines(cursor=False, dom_id="graph")
        super().__init__(terminal, dom_id="tasks", main=self._board)
        self._rows: list[TaskCard | str] = []
        self._now_ms = 0
        self._called: Callable[[str], str] = lambda name: name
        self._tasks: tuple[TaskCard, ...] | None = None
        self._drawn: tuple[tuple[TaskCard, ...], int] | None = None

    def compose(self) -> ComposeResult:
        with ContentSwitcher(initial="board"):
            yield self._board
            yield self._graph

    @property
    def _is_graph(self) -> bool:
        return self.main is self._graph

    def toggle(self) -> None:
        self.main = self._board if self._is_graph else self._graph
        self.query_one(ContentSwitcher).current = self.main.id
        self._draw_graph()
        self.main.focus()

    def show(self, look: TeamLook) -> None:
        """Show the tasks as they are now; the cursor stays on its task."""
        before = self.selected().task
        self._now_ms, self._called = look.now_ms, look.name
        self._tasks = tuple(task for task in look.scene.tasks if self._is_wanted(task))
        groups: dict[TaskState, list[TaskCard]] = {state: [] for state in TASK_STATES}
        for task in self._tasks:
            groups[task.state].append(task)
        rows: list[TaskCard | str] = []
        for state, tasks in groups.items():
            if tasks:
                rows += [f"{state_word(state).capitalize()} ({len(tasks)})", *tasks]
        self._rows = rows or ["No task matches." if self.words else "There are no tasks."]
        # Below the first heading, which is nothing to act on.
        at = min(1, len(self._rows) - 1) if before is None else None
        for number, row in enumerate(rows):
            if isinstance(row, TaskCard) and row.id == before:
                at = number
        self._board.put(len(self._rows), self._row, at=at)
        self._draw_graph()

    def on_resize(self) -> None:
        self._draw_graph()

    def age(self, now_ms: int) -> None:
        self._now_ms = now_ms
        if not self._is_graph:
            self._board.refresh()

    def selected(self) -> Selected:
        card = self._card()
        if card is None or self._is_graph:
            return Selected()
        return Selected(member=card.owner, task=card.id)

    def details(self) -> tuple[str, Blocks] | None:
        card = self._card()
        if card is None:
            return None
        return task_text(card, self._called)

    def _card(self) -> TaskCard | None:
        at = self._board.cursor
        row = None if at is None or at >= len(self._rows) else self._rows[at]
        return row if isinstance(row, TaskCard) else None

    def _is_wanted(self, card: TaskCard) -> bool:
        return among(
            self.words, f"#{card.id}", card.subject, card.owner, self._owner(card),
            state_word(card.state),
        )  # fmt: skip

    def _owner(self, card: TaskCard) -> str:
        return self._called(card.owner or "")

    def _draw_graph(self) -> None:
        tasks, width = self._tasks, self.size.width
        if self._is_graph and tasks is not None and (tasks, width) != self._drawn:
            self._drawn = tasks, width
            lines, wide = drawn(tasks, self.terminal, width)
            self._graph.put(len(lines), lambda number, _: lines[number], width=wide)

    def _row(self, number: int, width: int) -> Text:
        row = self._rows[number]
        if isinstance(row, str):
            return styled(self.terminal.fit(row, width), "strong")
        style = STATE_STYLES[row.state]
        note = row.note or (f"waits for {ids(row.waits_for)}" if row.waits_for else "")
        aside = min(40, max(0, width - 60))
        mark = f"  {self.terminal.glyph(row.state)} #{row.id} "
        line = styled(mark, style)
        subject = max(10, width - aside - _OWNER - 7 - len(mark))
        line.append_text(self.terminal.column(row.subject, subject, style))
        line.append(" ")
        line.append_text(self.terminal.column(self._owner(row), _OWNER))
        line.append_text(self.terminal.column(age(row.since_ms, self._now_ms), 5, right=True))
        line.append_text(styled(self.terminal.fit(f" {note}", aside), "muted"))
        return line
