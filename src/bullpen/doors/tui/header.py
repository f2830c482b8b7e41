"""The lines above every page: the team in one line, and the names of the pages."""

from __future__ import annotations

from collections import Counter

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Static

from bullpen.doors.tui.panes.pane import TeamLook
from bullpen.doors.tui.terminal_text import TerminalText, styled
from bullpen.protocol.presence import ENDED
from bullpen.view import agent_words

PAGES = ("members", "tasks", "messages", "waiting", "log")
_PART_LEAST = 20
"""A part that would be cut to less than this is left out."""


def head(look: TeamLook, now_ms: int, width: int, terminal: TerminalText) -> Text:
    """The team in one line, the most important part first: the end may be cut off."""
    scene = look.scene
    waits = sum(ask.for_people for ask in scene.asks)
    states = {card.state for card in scene.members}
    parts: list[tuple[str, str]] = [(terminal.fit(scene.team, max(8, width // 4)), "strong")]
    if waits:
        word = "requests wait" if waits > 1 else "request waits"
        parts.append((f"{terminal.glyph('waiting')} {waits} {word} for you", "attention"))
    done, tasks = scene.finished, len(scene.tasks)
    parts.append((f"{done}/{tasks} tasks done", ""))
    limit = "" if scene.limits.usd is None else f" of ${scene.limits.usd:.2f}"
    if agent_words.used_any(scene.total) or limit:
        parts.append((f"{agent_words.money(scene.total)}{limit}", ""))
    if scene.began_ms is not None:
        # The time stops when all agents have ended.
        until_ms = look.story.at_ms if states <= ENDED else now_ms
        parts.append((agent_words.duration((until_ms - scene.began_ms) / 1000), "muted"))
    # The state of a person is not known and says nothing.
    known = Counter(
        card.state for card in scene.members if look.story.shown_name(card.name) != "you"
    )
    counts = ", ".join(f"{count} {state}" for state, count in known.most_common())
    parts.append((f"{len(scene.members)} members: {counts}", ""))
    if scene.result is not None:
        parts.append((f"result: {terminal.fit(scene.result, 200)}", "good"))
    line = styled("")
    for number, (text, style) in enumerate(parts):
        shown = terminal.fit(text, width - line.cell_len - 4)
        if number and len(shown) < min(len(text), _PART_LEAST):
            break
        line.append_text(styled(("   " if number else " ") + shown, style))
    return line


class Tab(Static):
    """The name of a page, to click on."""

    class Wanted(Message):
        """A page was clicked."""

        def __init__(self, page: str) -> None:
            super().__init__()
            self.page = page

    def __init__(self, number: int, page: str) -> None:
        self._label = f"{number} {page.capitalize()}"
        super().__init__(f" {self._label} ", id=f"tab-{page}", markup=False)
        self._page = page
        self._waiting = 0

    def count(self, waiting: int) -> None:
        """Show how many requests wait on this page."""
        if waiting != self._waiting:
            self._waiting = waiting
            more = f" ({waiting})" if waiting else ""
            self.update(Text(f" {self._label}{more} "))
            self.set_class(bool(waiting), "-waits")

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.Wanted(self._page))


class Tabs(Horizontal):
    """The names of all pages."""

    def compose(self) -> ComposeResult:
        for number, page in enumerate(PAGES, 1):
            yield Tab(number, page)

    def mark(self, page: str) -> None:
        for tab in self.query(Tab):
            tab.set_class(tab.id == f"tab-{page}", "-here")

    def count(self, waiting: int) -> None:
        """Show how many requests wait for an answer."""
        self.query_one("#tab-waiting", Tab).count(waiting)
