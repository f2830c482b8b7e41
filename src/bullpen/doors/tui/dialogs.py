"""Small windows: confirm, write a text, pick from a list, read a text."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual import widgets
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from bullpen.doors.tui.line_view import Blocks, Lines, TextScreen
from bullpen.doors.tui.panes.pane import among
from bullpen.doors.tui.terminal_text import TerminalText, styled


class Confirm(ModalScreen[bool]):
    """Asks before something that cannot be undone."""

    BINDINGS = [  # noqa: RUF012
        Binding("y", "dismiss(True)", "Yes"),
        Binding("n,escape", "dismiss(False)", "No"),
    ]

    def __init__(self, terminal: TerminalText, question: str, consequence: str) -> None:
        super().__init__()
        self._question = _wrapped(terminal, question, "strong")
        self._consequence = _wrapped(terminal, consequence)

    def compose(self) -> ComposeResult:
        with Vertical(classes="window"):
            yield self._question
            yield self._consequence
            with Horizontal(classes="buttons"):
                yield widgets.Button("No (n)", id="no", compact=True)
                yield widgets.Button("Yes (y)", id="yes", compact=True)

    def on_mount(self) -> None:
        # Enter means no.
        self.query_one("#no").focus()

    def on_button_pressed(self, event: widgets.Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")


class Writing(ModalScreen[str | None]):
    """Takes a text; None if it was cancelled."""

    BINDINGS = [  # noqa: RUF012
        Binding("ctrl+s", "send", "Send", priority=True),
        Binding("escape", "dismiss", "Cancel", priority=True),
    ]

    def __init__(
        self, terminal: TerminalText, title: str, *, text: str = "", send: str = "Send"
    ) -> None:
        super().__init__()
        self._heading = _wrapped(terminal, title, "strong")
        self._area = widgets.TextArea(text, soft_wrap=True, tab_behavior="focus")
        self._area.cursor_blink = False
        self._send = send

    def compose(self) -> ComposeResult:
        with Vertical(classes="window tall"):
            yield self._heading
            yield self._area
            with Horizontal(classes="buttons"):
                yield widgets.Button(f"{self._send} (ctrl+s)", id="send", compact=True)
                yield widgets.Button("Cancel (esc)", id="cancel", compact=True)

    def on_mount(self) -> None:
        self._area.focus()

    def action_send(self) -> None:
        self.dismiss(self._area.text)

    def on_button_pressed(self, event: widgets.Button.Pressed) -> None:
        self.dismiss(self._area.text if event.button.id == "send" else None)


class Pick(ModalScreen[str | None]):
    """Lets a person pick one of many rows by typing a part of it."""

    BINDINGS = [  # noqa: RUF012
        Binding("escape", "dismiss", "Cancel", priority=True),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
        Binding("down", "move(1)", "Down", show=False, priority=True),
    ]

    def __init__(self, terminal: TerminalText, title: str, rows: Sequence[tuple[str, str]]) -> None:
        """Each row is the value to return and the text to show."""
        super().__init__()
        self._terminal, self._rows = terminal, list(rows)
        self._found = self._rows
        self._heading = _wrapped(terminal, title, "strong")
        self._lines = Lines()

    def compose(self) -> ComposeResult:
        with Vertical(classes="window tall"):
            yield self._heading
            typed = Input(placeholder="type to filter", compact=True)
            typed.cursor_blink = False
            yield typed
            yield self._lines

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._put()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._found = [row for row in self._rows if among(event.value, *row)]
        self._put()

    def on_input_submitted(self) -> None:
        self._take()

    def on_lines_chosen(self) -> None:
        self._take()

    def action_move(self, by: int) -> None:
        self._lines.action_move(by)

    def _take(self) -> None:
        at = self._lines.cursor
        if at is not None and at < len(self._found):
            self.dismiss(self._found[at][0])

    def _put(self) -> None:
        self._lines.put(max(1, len(self._found)), self._row, at=0)

    def _row(self, number: int, width: int) -> Text:
        if not self._found:
            return styled("Nothing matches.", "muted")
        return styled(self._terminal.fit(self._found[number][1], width))


class TextWindow(ModalScreen[None]):
    """Shows a whole text."""

    BINDINGS = [Binding("escape,enter,q", "dismiss", "Back")]  # noqa: RUF012

    def __init__(self, terminal: TerminalText, title: str, blocks: Blocks) -> None:
        super().__init__()
        self._blocks = blocks
        self._heading = _wrapped(terminal, title, "strong")
        self._text = TextScreen(terminal)

    def compose(self) -> ComposeResult:
        with Vertical(classes="window tall"):
            yield self._heading
            yield self._text
            yield Static("esc back, arrows scroll", classes="hint", markup=False)

    def on_mount(self) -> None:
        self._text.focus()
        # Its width is known only then.
        self.call_after_refresh(self._text.read, self._blocks)


def _wrapped(terminal: TerminalText, text: str, style: str = "") -> Static:
    shown = styled(terminal.fit(text, 400), style)
    shown.no_wrap = False
    return Static(shown)
