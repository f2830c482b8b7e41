"""A request in full, in a window of its own: a long command, a diff, a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic

from textual import events, widgets
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import ContentSwitcher, Static

from bullpen.doors.tui.line_view import TextScreen
from bullpen.doors.tui.member.member_work import MARKDOWN_MAX
from bullpen.doors.tui.prompt import ask_bar
from bullpen.doors.tui.terminal_text import TerminalText, styled
from bullpen.view.scene import AskCard
from bullpen.view.text import visible


class AskWindow(ModalScreen[str | None]):
    """Shows the whole request; the keys of the bar answer it. Returns the key."""

    BINDINGS = [  # noqa: RUF012
        Binding("escape,q", "dismiss", "Back"),
        Binding("r", "as_written", "Plain text"),
    ]

    def __init__(
        self,
        terminal: TerminalText,
        ask: AskCard,
        head: str,
        keys: Mapping[str, str],
        *,
        monotonic: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__()
        self._ask = ask
        self._keys = {key: word for key, word in keys.items() if word not in ("view", "next")}
        self._monotonic, self._opened_s = monotonic, monotonic()
        self._heading = styled(terminal.fit(head, 200), "strong")
        self._why = styled(terminal.fit(f"Why: {ask.why}", 400), "muted") if ask.why else None
        self._exact = TextScreen(terminal, dom_id="exact")
        self._text = "\n".join(cell.text for cell in ask.lines)
        self._is_plan = ask.kind == "plan" and len(self._text) <= MARKDOWN_MAX

    def compose(self) -> ComposeResult:
        with Vertical(classes="window tall"):
            yield Static(self._heading)
            if self._why is not None:
                yield Static(self._why)
            with ContentSwitcher(initial="rendered" if self._is_plan else "exact"):
                yield self._exact
                with VerticalScroll(id="rendered"):
                    if self._is_plan:
                        # Its links open nothing: an agent wrote them.
                        yield widgets.Markdown(visible(self._text), open_links=False)
            yield Static(styled(self._hint(), "muted"))

    def on_mount(self) -> None:
        self._focus()
        # Its width is known only then.
        self.call_after_refresh(self._exact.read, self._ask.lines)

    def on_key(self, event: events.Key) -> None:
        key = event.character
        if key is None or key not in self._keys:
            return
        event.stop()
        if self._monotonic() - self._opened_s < ask_bar.SETTLE_S:
            self.notify("This window has only just opened. Read it, then answer.", markup=False)
            return
        self.dismiss(key)

    def action_as_written(self) -> None:
        """Switch between a plan as plain text and as Markdown."""
        if self._is_plan:
            switcher = self.query_one(ContentSwitcher)
            switcher.current = "exact" if switcher.current == "rendered" else "rendered"
            self._focus()

    def _focus(self) -> None:
        shown = self.query_one(ContentSwitcher).visible_content
        if shown is not None:
            shown.focus()

    def _hint(self) -> str:
        keys = [f"{key} {word}" for key, word in self._keys.items()]
        keys += ["r plain text"] if self._is_plan else []
        return "  ".join([*keys, "esc back"])
