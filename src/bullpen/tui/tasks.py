"""The tasks of a team: a board by state, or their graph."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.widgets import ContentSwitcher

from bullpen.tui.graph_lines import drawn
from bullpen.tui.ink import STATE_STYLES, Ink, styled
from bullpen.tui.lines import Lines
from bullpen.tui.pane import Chosen, Look, Pane, task_fits
from bullpen.view.scene import TASK_STATES, TaskCard, TaskState
from bullpen.view.sentences import age

TITLES: dict[TaskState, str] = {
    "in_progress": "In progress",
    "ready": "Ready",
    "queued": "In the merge queue",
    "unproven": "Called done, not proved",
    "blocked": "Waits for others",
    "given_up": "Given up",
    "done": "Done",
}
_OWNER = 12


class TasksPane(Pane):
    """What is to be done, by whom, and what waits for what."""

    def __init__(self, ink: Ink) -> None:
        super().__init__(ink, dom_id="tasks")
        self._board = Lines(dom_id="board")
        self._graph = Lines(cursor=False, dom_id="graph")
        self._rows: list[TaskCard | str] = []
        self._now_ms = 0
        self._tasks: tuple[TaskCard, ...] | None = None
        self._drawn: tuple[tuple[TaskCard, ...], int] | None = None

    def compose(self) -> ComposeResult:
        """Both, of which one is seen."""
        with ContentSwitcher(initial="board"):
            yield self._board
            yield self._graph

    @property
    def is_graph(self) -> bool:
        """Whether the graph is seen."""
        return self.query_one(ContentSwitcher).current == "graph"

    def toggle(self) -> None:
        """Show the graph in the place of the board, and back."""
        switcher = self.query_one(ContentSwitcher)
        switcher.current = "board" if self.is_graph else "graph"
        if self._tasks is not None:
            self._draw_graph()
        self.focus_list()

    def focus_list(self) -> None:
        """Let the keys go to what is seen."""
        (self._graph if self.is_graph else self._board).focus()

    def show(self, look: Look) -> None:
        """Show the tasks as they are now; whichever was chosen is chosen still."""
        before = self.chosen().task
        self._now_ms = look.now_ms
        self._tasks = tuple(task for task in look.scene.tasks if task_fits(task, self.words))
        groups: dict[TaskState, list[TaskCard]] = {state: [] for state in TASK_STATES}
        for task in self._tasks:
            groups[task.state].append(task)
        rows: list[TaskCard | str] = []
        for state, tasks in groups.items():
            if tasks:
                rows += [f"{TITLES[state]} ({len(tasks)})", *tasks]
        if not rows:
            rows = ["No task has these words." if self.words else "There are no tasks."]
        self._rows = rows
        at = next(
            (
                number
                for number, row in enumerate(rows)
                if isinstance(row, TaskCard) and row.id == before
            ),
            # On a heading there is nothing to do.
            min(1, len(rows) - 1) if before is None else None,
        )
        self._board.put(len(rows), self._row, at=at)
        self._draw_graph()

    def on_resize(self) -> None:
        """Draw the graph for the new width."""
        self._draw_graph()

    def age(self, now_ms: int) -> None:
        """Let the ages in sight go on."""
        self._now_ms = now_ms
        if not self.is_graph:
            self._board.refresh()

    def chosen(self) -> Chosen:
        """The task under the cursor."""
        at = self._board.cursor
        if self.is_graph or at is None or at >= len(self._rows):
            return Chosen()
        row = self._rows[at]
        return Chosen() if isinstance(row, str) else Chosen(member=row.owner, task=row.id)

    def card(self) -> TaskCard | None:
        """The task under the cursor, with all about it."""
        at = self._board.cursor
        row = None if at is None or at >= len(self._rows) else self._rows[at]
        return row if isinstance(row, TaskCard) else None

    def _draw_graph(self) -> None:
        if (
            not self.is_graph
            or self._tasks is None
            or (self._tasks, self.size.width) == self._drawn
        ):
            return
        self._drawn = self._tasks, self.size.width
        lines, width = drawn(self._tasks, self.ink, self.size.width)
        self._graph.put(len(lines), lambda number, _: lines[number], width=width)

    def _row(self, number: int, width: int) -> Text:
        row = self._rows[number]
        if isinstance(row, str):
            return styled(self.ink.fit(row, width), "strong")
        style = STATE_STYLES[row.state]
        waits = "waits for " + " ".join(f"#{each}" for each in row.waits_for)
        note = row.note or (waits if row.waits_for else "")
        aside = min(40, max(0, width - 60))
        mark = f"  {self.ink.glyph(row.state)} #{row.id} "
        line = styled(mark, style)
        subject = max(10, width - aside - _OWNER - 7 - len(mark))
        line.append_text(self.ink.column(row.subject, subject, style))
        line.append(" ")
        line.append_text(self.ink.column(row.owner or "", _OWNER))
        line.append_text(self.ink.column(age(row.since_ms, self._now_ms), 5, right=True))
        line.append_text(styled(self.ink.fit(f" {note}", aside), "muted"))
        return line
