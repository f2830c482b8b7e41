"""The lines above every page: how the team is, where one is, and what is wrong."""

from __future__ import annotations

from collections import Counter

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Static

from bullpen.tui.ink import Ink, styled
from bullpen.tui.pane import Look
from bullpen.view import agent_words

PAGES = ("members", "tasks", "messages", "waiting", "log")
_TITLES = {
    "members": "Members", "tasks": "Tasks", "messages": "Messages", "waiting": "Waiting",
    "log": "Log",
}  # fmt: skip

_ENDED = {"stopped", "failed", "lost"}
_PART_LEAST = 20
"""Of a part that is cut, so much must be left, or it says nothing."""


def head(look: Look, now_ms: int, width: int, ink: Ink) -> Text:
    """The team in one line: what matters most first, and last what may be cut off."""
    scene = look.scene
    waits = sum(ask.for_people for ask in scene.asks)
    states = Counter(card.state for card in scene.members)
    parts: list[tuple[str, str]] = [(ink.fit(scene.team, max(8, width // 4)), "strong")]
    if waits:
        word = "waits" if waits == 1 else "wait"
        parts.append((f"{ink.glyph('waiting')} {waits} {word} for you", "attention"))
    done, tasks = scene.count("done"), len(scene.tasks)
    parts.append((f"{done}/{tasks} tasks done", ""))
    limit = "" if scene.limits.usd is None else f" of ${scene.limits.usd:.2f}"
    if agent_words.used_any(scene.total) or limit:
        parts.append((f"{agent_words.money(scene.total)}{limit}", ""))
    if scene.began_ms is not None:
        # Where nobody works any more, the time stands still.
        over = set(states) <= _ENDED
        until_ms = look.story.at_ms if over else now_ms
        parts.append((agent_words.duration((until_ms - scene.began_ms) / 1000), "muted"))
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    parts.append((f"{len(scene.members)} members: {counts}", ""))
    if scene.result is not None:
        parts.append((f"result: {ink.fit(scene.result, 200)}", "good"))
    line = styled("")
    for number, (text, style) in enumerate(parts):
        shown = ink.fit(text, width - line.cell_len - 4)
        if number and len(shown) < min(len(text), _PART_LEAST):
            break
        line.append_text(styled(("   " if number else " ") + shown, style))
    return line


class Tab(Static):
    """The name of a page, which can be clicked."""

    class Wanted(Message):
        """Somebody wants to see a page."""

        def __init__(self, page: str) -> None:
            super().__init__()
            self.page = page

    def __init__(self, number: int, page: str) -> None:
        super().__init__(f" {number} {_TITLES[page]} ", id=f"tab-{page}", markup=False)
        self._number, self._page = number, page
        self._waiting = 0

    def count(self, waiting: int) -> None:
        """Say how many wait behind this page."""
        if waiting == self._waiting:
            return
        self._waiting = waiting
        more = f" ({waiting})" if waiting else ""
        self.update(Text(f" {self._number} {_TITLES[self._page]}{more} "))
        self.set_class(bool(waiting), "-waits")

    def on_click(self, event: events.Click) -> None:
        """Go to the page."""
        event.stop()
        self.post_message(self.Wanted(self._page))


class Tabs(Horizontal):
    """The names of all pages."""

    def compose(self) -> ComposeResult:
        """One after the other."""
        for number, page in enumerate(PAGES, 1):
            yield Tab(number, page)

    def mark(self, page: str) -> None:
        """Show which page one is on."""
        for tab in self.query(Tab):
            tab.set_class(tab.id == f"tab-{page}", "-here")

    def count(self, waiting: int) -> None:
        """Say how many wait for an answer."""
        self.query_one("#tab-waiting", Tab).count(waiting)
