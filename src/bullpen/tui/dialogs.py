"""Small windows: a yes or no, a text to write, one of many to pick, a text to read."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static, TextArea

from bullpen.tui.ink import Ink, styled
from bullpen.tui.lines import Lines, Reading
from bullpen.tui.pane import among


class Confirm(ModalScreen[bool]):
    """Asks before something that cannot be undone."""

    BINDINGS = [  # noqa: RUF012
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape", "answer(False)", "No"),
    ]

    def __init__(self, ink: Ink, question: str, about: str) -> None:
        super().__init__()
        self._question = styled(ink.fit(question, 200), "strong")
        self._more = styled(ink.fit(about, 400))

    def compose(self) -> ComposeResult:
        """The question and two buttons; the harmless one has the focus."""
        self._question.no_wrap = self._more.no_wrap = False
        with Vertical(classes="window"):
            yield Static(self._question)
            yield Static(self._more)
            with Horizontal(classes="buttons"):
                yield Button("No (n)", id="no", compact=True)
                yield Button("Yes (y)", id="yes", compact=True)

    def on_mount(self) -> None:
        """Let Enter mean no."""
        self.query_one("#no").focus()

    def action_answer(self, yes: bool) -> None:
        """Answer."""
        self.dismiss(yes)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Answer by a click."""
        self.dismiss(event.button.id == "yes")


class Writing(ModalScreen[str | None]):
    """Takes a text; None if nobody wants to send it any more."""

    BINDINGS = [  # noqa: RUF012
        Binding("ctrl+s", "send", "Send", priority=True),
        Binding("escape", "leave", "Cancel", priority=True),
    ]

    def __init__(self, ink: Ink, title: str, *, text: str = "", send: str = "Send") -> None:
        super().__init__()
        self._head = styled(ink.fit(title, 400), "strong")
        self._area = TextArea(text, soft_wrap=True, tab_behavior="focus")
        self._area.cursor_blink = False
        self._send = send

    def compose(self) -> ComposeResult:
        """The text and two buttons."""
        self._head.no_wrap = False
        with Vertical(classes="window tall"):
            yield Static(self._head)
            yield self._area
            with Horizontal(classes="buttons"):
                yield Button(f"{self._send} (ctrl+s)", id="send", compact=True)
                yield Button("Cancel (esc)", id="cancel", compact=True)

    def on_mount(self) -> None:
        """Let the keys go to the text."""
        self._area.focus()

    def action_send(self) -> None:
        """Send what is written."""
        self.dismiss(self._area.text)

    def action_leave(self) -> None:
        """Send nothing."""
        self.dismiss(None)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Do it by a click."""
        self.dismiss(self._area.text if event.button.id == "send" else None)


class Pick(ModalScreen[str | None]):
    """Lets one of many be picked, by typing a part of it."""

    BINDINGS = [  # noqa: RUF012
        Binding("escape", "leave", "Cancel", priority=True),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
        Binding("down", "move(1)", "Down", show=False, priority=True),
    ]

    def __init__(self, ink: Ink, title: str, rows: Sequence[tuple[str, str]]) -> None:
        """`rows` are what comes back, and how it is shown."""
        super().__init__()
        self._ink, self._rows = ink, list(rows)
        self._found = self._rows
        self._head = styled(ink.fit(title, 200), "strong")
        self._lines = Lines()

    def compose(self) -> ComposeResult:
        """Where to type, and what is left."""
        with Vertical(classes="window tall"):
            yield Static(self._head)
            typed = Input(placeholder="type a part of it", compact=True)
            typed.cursor_blink = False
            yield typed
            yield self._lines

    def on_mount(self) -> None:
        """Show all there is."""
        self.query_one(Input).focus()
        self._put()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show what is left."""
        self._found = [row for row in self._rows if among(event.value, *row)]
        self._put()

    def on_input_submitted(self) -> None:
        """Take the line that is marked."""
        self._take()

    def on_lines_chosen(self) -> None:
        """Take the line that was clicked."""
        self._take()

    def action_move(self, by: int) -> None:
        """Mark another line while typing."""
        self._lines.action_move(by)

    def action_leave(self) -> None:
        """Take none."""
        self.dismiss(None)

    def _take(self) -> None:
        at = self._lines.cursor
        if at is not None and at < len(self._found):
            self.dismiss(self._found[at][0])

    def _put(self) -> None:
        self._lines.put(max(1, len(self._found)), self._row, at=0)

    def _row(self, number: int, width: int) -> Text:
        if not self._found:
            return styled("Nothing is like this.", "muted")
        return styled(self._ink.fit(self._found[number][1], width))


class Letter(ModalScreen[None]):
    """Shows a text whole."""

    BINDINGS = [Binding("escape,enter,q", "leave", "Back")]  # noqa: RUF012

    def __init__(self, ink: Ink, title: str, blocks: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._ink, self._blocks = ink, blocks
        self._head = styled(ink.fit(title, 200), "strong")

    def compose(self) -> ComposeResult:
        """The text."""
        with Vertical(classes="window tall"):
            yield Static(self._head)
            yield Reading()
            yield Static("esc back, arrows scroll", classes="hint", markup=False)

    def on_mount(self) -> None:
        """Wrap it once its width is known."""
        reading = self.query_one(Reading)
        reading.focus()
        self.call_after_refresh(reading.read, self._ink, self._blocks)

    def action_leave(self) -> None:
        """Go back."""
        self.dismiss(None)
