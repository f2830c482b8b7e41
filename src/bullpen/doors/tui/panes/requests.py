"""The requests that wait for an answer: who asks, for exactly what, and why."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from rich.text import Text
from textual import widgets
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import ContentSwitcher, Static

from bullpen.doors.tui.line_view import Lines, TextScreen
from bullpen.doors.tui.panes.pane import Pane, Selected, TeamLook, among
from bullpen.doors.tui.terminal_text import TerminalText, styled
from bullpen.view.agent_words import duration
from bullpen.view.scene import AskCard
from bullpen.view.sentences import age
from bullpen.view.text import visible

_LIST_MAX = 6
_MARKDOWN_MAX = 40_000
"""A longer plan is shown as plain text: each of its paragraphs would be a widget."""

SETTLE_S = 0.7
"""For this long, keys do not answer a request that moved under the cursor by itself."""


class WaitingPane(Pane):
    """The open requests; those for people first."""

    def __init__(
        self, terminal: TerminalText, *, monotonic: Callable[[], float] = monotonic
    ) -> None:
        self._list = Lines(dom_id="asks")
        super().__init__(terminal, dom_id="waiting", main=self._list)
        self._about = Static(id="about")
        self._exact = TextScreen(terminal, dom_id="exact")
        self._plan: widgets.Markdown | None = None
        self._asks: list[AskCard] = []
        self._shown: AskCard | None = None
        self._now_ms = 0
        self._monotonic = monotonic
        self._came_s = 0.0
        self._as_written = False

    def compose(self) -> ComposeResult:
        yield self._list
        yield self._about
        with ContentSwitcher(initial="exact"):
            yield self._exact
            yield VerticalScroll(id="plan")

    def show(self, look: TeamLook) -> None:
        """Show the open requests; the cursor stays on its request while that is open."""
        before = self._shown
        self._now_ms = look.now_ms
        asks = [
            ask
            for ask in look.scene.asks
            if among(self.words, ask.sender, ask.about, ask.kind, ask.handle)
        ]
        self._asks = sorted(asks, key=lambda ask: not ask.for_people)
        ids = [ask.id for ask in self._asks]
        at = self._list.cursor or 0
        if before is not None and before.id in ids:
            at = ids.index(before.id)
        self._list.styles.height = min(_LIST_MAX, max(1, len(ids)))
        self._list.put(max(1, len(ids)), self._row, at=min(at, max(0, len(ids) - 1)))
        now = self.ask()
        if now is not None and (before is None or before.id != now.id):
            self._came_s = self._monotonic()
        self._show_ask()

    def age(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._list.refresh()

    def selected(self) -> Selected:
        ask = self.ask()
        return Selected(member=None if ask is None else ask.sender)

    def ask(self) -> AskCard | None:
        at = self._list.cursor
        return self._asks[at] if at is not None and at < len(self._asks) else None

    @property
    def is_settled(self) -> bool:
        """Whether the request has been under the cursor long enough to have been read."""
        return self._monotonic() - self._came_s >= SETTLE_S

    def toggle(self) -> None:
        """Switch between a plan as plain text and as Markdown."""
        self._as_written = not self._as_written
        self._shown = None
        self._show_ask()

    def on_lines_moved(self) -> None:
        self._came_s = 0.0
        self._show_ask()

    def _show_ask(self) -> None:
        ask = self.ask()
        if ask == self._shown and ask is not None:
            return
        same = ask is not None and self._shown is not None and ask.id == self._shown.id
        self._shown = ask
        switcher = self.query_one(ContentSwitcher)
        if ask is None:
            self._about.update(Text())
            self._exact.read([])
            switcher.current = "exact"
            return
        self._about.update(_about(ask, self.terminal))
        text = "\n".join(cell.text for cell in ask.lines)
        if ask.kind == "plan" and not self._as_written and len(text) <= _MARKDOWN_MAX:
            switcher.current = "plan"
            self._show_plan(visible(text))
            return
        switcher.current = "exact"
        self._exact.read(ask.lines)
        if not same:
            self._exact.scroll_home(animate=False)

    def _show_plan(self, text: str) -> None:
        """Show a text as Markdown; the first one makes the widget, which few people need."""
        if self._plan is None:
            # Its links open nothing: an agent wrote them.
            self._plan = widgets.Markdown(text, open_links=False)
            self.query_one("#plan").mount(self._plan)
        else:
            self._plan.update(text)

    def _row(self, number: int, width: int) -> Text:
        if not self._asks:
            return styled("No requests are waiting.", "muted")
        ask = self._asks[number]
        who = "you" if ask.for_people else "the lead" if ask.to == "team-lead" else ask.to
        left = ""
        if ask.deadline_ms is not None:
            left = f" {duration((ask.deadline_ms - self._now_ms) / 1000)} left"
        line = styled(
            f"{self.terminal.glyph('waiting')} ", "attention" if ask.for_people else "muted"
        )
        head = f"{ask.sender} {self.terminal.glyph('to')} {who}"
        aside = f" {age(ask.created_ms, self._now_ms)} ago{left}"
        line.append_text(self.terminal.column(head, 26, "strong"))
        line.append(" ")
        line.append_text(self.terminal.column(ask.about, max(8, width - 30 - len(aside))))
        line.append_text(styled(aside, "muted"))
        return line


def _about(ask: AskCard, terminal: TerminalText) -> Text:
    """Who asks for what, why approval is needed, and what `always` would allow."""
    shown = styled(terminal.fit(f"{ask.sender} asks: {ask.about}", 400), "strong")
    if ask.why:
        shown.append_text(styled(f"\nReason: {terminal.fit(ask.why, 400)}", "muted"))
    if len(ask.choices) > 1:
        for _, line in ask.choices:
            shown.append_text(styled(f'\n"Always" can allow {terminal.fit(line, 200)}', "muted"))
    elif ask.always:
        always = ", ".join(terminal.fit(each, 200) for each in ask.always)
        shown.append_text(styled(f'\n"Always" would allow: {always}', "muted"))
    shown.no_wrap = False
    return shown
