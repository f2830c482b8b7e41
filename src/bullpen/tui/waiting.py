"""What waits for a person: who asks, exactly what for, and why."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import ContentSwitcher, Markdown, Static

from bullpen.tui.ink import Ink, styled
from bullpen.tui.lines import Lines, Reading
from bullpen.tui.pane import Chosen, Look, Pane, among
from bullpen.view.agent_words import duration
from bullpen.view.scene import AskCard
from bullpen.view.sentences import age
from bullpen.view.text import visible

_LIST_MAX = 6
_MARKDOWN_MAX = 40_000
"""A longer plan is shown as it is written: each of its paragraphs would be a widget."""

SETTLE_S = 0.7
"""How long after another request came under the cursor by itself no key answers it."""


class WaitingPane(Pane):
    """The requests that are open; those for people first."""

    def __init__(self, ink: Ink, *, monotonic: Callable[[], float] = monotonic) -> None:
        super().__init__(ink, dom_id="waiting")
        self._list = Lines(dom_id="asks")
        self._about = Static(id="about")
        self._exact = Reading(dom_id="exact")
        # Its links open nothing: where they lead is somebody else's word.
        self._plan = Markdown(open_links=False)
        self._asks: list[AskCard] = []
        self._shown: AskCard | None = None
        self._now_ms = 0
        self._monotonic = monotonic
        self._came_s = 0.0
        self.as_written = False

    def compose(self) -> ComposeResult:
        """The list, and below it the request under its cursor."""
        yield self._list
        yield self._about
        with ContentSwitcher(initial="exact"):
            yield self._exact
            with VerticalScroll(id="plan"):
                yield self._plan

    def focus_list(self) -> None:
        """Let the keys go to the list."""
        self._list.focus()

    def show(self, look: Look) -> None:
        """Show what waits now; whichever was chosen is chosen still, as long as it waits."""
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
        now = self.selected()
        if now is not None and (before is None or before.id != now.id):
            self._came_s = self._monotonic()
        self._detail()

    def age(self, now_ms: int) -> None:
        """Let what is left of the time grow less."""
        self._now_ms = now_ms
        self._list.refresh()

    def chosen(self) -> Chosen:
        """The request under the cursor, and who asks."""
        ask = self.selected()
        return Chosen(member=None if ask is None else ask.sender, ask=ask)

    def selected(self) -> AskCard | None:
        """The request under the cursor."""
        at = self._list.cursor
        return self._asks[at] if at is not None and at < len(self._asks) else None

    @property
    def is_settled(self) -> bool:
        """Whether the request has been there long enough to be the one that is meant."""
        return self._monotonic() - self._came_s >= SETTLE_S

    def toggle(self) -> None:
        """Show a plan as it is written, and back."""
        self.as_written = not self.as_written
        self._shown = None
        self._detail()

    def on_lines_moved(self, event: Lines.Moved) -> None:
        """Show the request that somebody went to."""
        if event.lines is self._list:
            self._came_s = 0.0
            self._detail()

    def _detail(self) -> None:
        ask = self.selected()
        if ask == self._shown and ask is not None:
            return
        same = ask is not None and self._shown is not None and ask.id == self._shown.id
        self._shown = ask
        switcher = self.query_one(ContentSwitcher)
        if ask is None:
            self._about.update(Text())
            self._exact.read(self.ink, [("", "")])
            switcher.current = "exact"
            return
        self._about.update(_about(ask, self.ink))
        text = "\n".join(cell.text for cell in ask.lines)
        if ask.kind == "plan" and not self.as_written and len(text) <= _MARKDOWN_MAX:
            switcher.current = "plan"
            self._plan.update(visible(text))
            return
        switcher.current = "exact"
        self._exact.read(self.ink, [(cell.text, cell.style) for cell in ask.lines])
        if not same:
            self._exact.scroll_home(animate=False)

    def _row(self, number: int, width: int) -> Text:
        if not self._asks:
            return styled("Nothing waits for an answer.", "muted")
        ask = self._asks[number]
        who = "you" if ask.for_people else "the lead" if ask.to == "team-lead" else ask.to
        left = ""
        if ask.deadline_ms is not None:
            left = f" {duration((ask.deadline_ms - self._now_ms) / 1000)} left"
        line = styled(f"{self.ink.glyph('waiting')} ", "attention" if ask.for_people else "muted")
        head = self.ink.fit(f"{ask.sender} {self.ink.glyph('to')} {who}", 26)
        aside = f" {age(ask.created_ms, self._now_ms)} ago{left}"
        line.append_text(self.ink.column(head, 26, "strong"))
        line.append(" ")
        line.append_text(self.ink.column(ask.about, max(8, width - 30 - len(aside))))
        line.append_text(styled(aside, "muted"))
        return line


def _about(ask: AskCard, ink: Ink) -> Text:
    """Who asks for what, why it has to be asked, and what `always` would mean."""
    shown = styled(ink.fit(f"{ask.sender} asks: {ask.about}", 400), "strong")
    if ask.why:
        shown.append_text(styled(f"\nAsked because: {ink.fit(ask.why, 400)}", "muted"))
    if ask.always:
        always = ", ".join(ink.fit(each, 200) for each in ask.always)
        shown.append_text(styled(f"\nAlways would allow from now on: {always}", "muted"))
    shown.no_wrap = False
    return shown
