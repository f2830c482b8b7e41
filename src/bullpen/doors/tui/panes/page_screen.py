"""A whole page about the team: its tasks as a board or a graph, messages, the log, the notes."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Footer, Input, Static

from bullpen.doors.tui.dialogs import TextWindow
from bullpen.doors.tui.panes.feeds import LogPane, MessagesPane
from bullpen.doors.tui.panes.notes import NotesPane
from bullpen.doors.tui.panes.pane import Pane, TeamLook
from bullpen.doors.tui.panes.tasks import TasksPane
from bullpen.doors.tui.team.header import head
from bullpen.doors.tui.terminal_text import TerminalText

PAGES: dict[str, type[TasksPane | MessagesPane | LogPane | NotesPane]] = {
    "tasks": TasksPane,
    "messages": MessagesPane,
    "log": LogPane,
    "notes": NotesPane,
}
_ACTIONS = {"graph": "tasks", "assign": "tasks", "notices": "messages"}


class PageScreen(Screen[None]):
    """One page, kept up to date while it is open."""

    BINDINGS = [  # noqa: RUF012
        Binding("escape", "back", "Back"),
        Binding("slash", "filter", "Filter"),
        Binding("g", "graph", "Graph"),
        Binding("t", "assign", "Assign"),
        Binding("n", "notices", "Notices"),
        Binding("ctrl+t", "dismiss", "Back", show=False),
        Binding("f7", "dismiss", "Back", show=False),
        Binding("ctrl+c", "app.quit", "Quit", show=False, priority=True),
    ]

    def __init__(
        self,
        page: str,
        terminal: TerminalText,
        look: TeamLook,
        assign: Callable[[str], None],
        *,
        graph: bool = False,
    ) -> None:
        """`assign` is called with a task that is to be given to somebody."""
        super().__init__()
        self._page, self._terminal, self._look, self._assign = page, terminal, look, assign
        self._head = Static(id="head")
        self._pane: Pane = PAGES[page](terminal)
        self._input = Input(placeholder="show only lines with", compact=True, id="filter")
        self._input.cursor_blink = False
        self._graph = graph

    def compose(self) -> ComposeResult:
        yield self._head
        yield self._pane
        yield self._input
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self._input.display = False
        self.show(self._look)
        if self._graph:
            self.action_graph()
        self._pane.main.focus()

    def show(self, look: TeamLook) -> None:
        """Show the team as it is now."""
        self._look = look
        self._pane.show(look)
        self.age(look.now_ms)

    def age(self, now_ms: int) -> None:
        self._head.update(head(self._look, now_ms, self.size.width, self._terminal))
        self._pane.age(now_ms)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only the keys that do something on this page."""
        return _ACTIONS.get(action, self._page) == self._page

    def on_lines_chosen(self) -> None:
        found = self._pane.details()
        if found is not None:
            self.app.push_screen(TextWindow(self._terminal, *found))

    def on_input_changed(self, event: Input.Changed) -> None:
        self._search(event.value)

    def on_input_submitted(self) -> None:
        self._input.display = bool(self._input.value)
        self._pane.main.focus()

    def action_filter(self) -> None:
        self._input.display = True
        self._input.focus()

    def action_back(self) -> None:
        """Clear the filter; without one, go back to the team."""
        if not (self._input.display or self._pane.words):
            self.dismiss()
            return
        self._input.value = ""
        self._input.display = False
        self._search("")
        self._pane.main.focus()

    def action_graph(self) -> None:
        if isinstance(self._pane, TasksPane):
            self._pane.toggle()

    def action_notices(self) -> None:
        if isinstance(self._pane, MessagesPane):
            self._pane.notices = not self._pane.notices
            self._pane.show(self._look)

    def action_assign(self) -> None:
        task = self._pane.selected().task
        if task is not None:
            self._assign(task)

    def _search(self, words: str) -> None:
        if self._pane.words != words:
            self._pane.words = words
            self._pane.show(self._look)
