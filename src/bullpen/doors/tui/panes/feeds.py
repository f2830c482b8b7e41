"""The pages that grow at the end: messages and the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from rich.text import Text
from textual.app import ComposeResult

from bullpen.doors.tui.line_view import Blocks, Lines
from bullpen.doors.tui.panes.pane import Pane, SearchFilter, Selected, TeamLook, among
from bullpen.doors.tui.terminal_text import TerminalText, clock, styled
from bullpen.view import sentences
from bullpen.view.story import NewsItem, Said, Story

T = TypeVar("T")
_WHO = 14


class FeedPane(Pane, Generic[T]):
    """A list that grows at the end, newest last."""

    def __init__(self, terminal: TerminalText, *, dom_id: str) -> None:
        self._lines = Lines(follow=True)
        super().__init__(terminal, dom_id=dom_id, main=self._lines)
        self._filter: SearchFilter[T] = SearchFilter()
        self._count = 0
        self._searched: object = None
        self._story = Story()
        self._look: TeamLook | None = None

    def compose(self) -> ComposeResult:
        yield self._lines

    def _put(
        self,
        look: TeamLook,
        items: Sequence[T],
        search: object,
        wanted: Callable[[T], bool] | None,
    ) -> None:
        """Show the items that match; go to the newest if the search is another one."""
        anew = search != self._searched
        if anew:
            self._searched = search
            self._filter.begin(wanted)
        self._story, self._look = look.story, look
        self._count = self._filter.look(items)
        self._lines.put(self._count or 1, self._row, at=max(0, self._count - 1) if anew else None)

    def _under_cursor(self) -> T | None:
        at = self._lines.cursor
        return self._filter[at] if at is not None and at < self._count else None

    def _row(self, number: int, width: int) -> Text:
        if not self._count:
            empty = "Nothing matches." if self.words else "Nothing here yet."
            return styled(empty if self._story.has_log else "Reading the log.", "muted")
        return self._line(self._filter[number], width)

    def _line(self, item: T, width: int) -> Text:
        raise NotImplementedError


class MessagesPane(FeedPane[Said]):
    """Who wrote what to whom. Notices are messages that programs send each other."""

    def __init__(self, terminal: TerminalText) -> None:
        super().__init__(terminal, dom_id="messages")
        self._colors: dict[str, str] = {}
        self.notices = False

    def show(self, look: TeamLook) -> None:
        words, notices, story = self.words, self.notices, look.story
        self._colors = {card.name: card.color or "" for card in look.scene.members}
        every = notices and not words
        wanted = None if every else lambda said: _matches(said, words, notices, story)
        self._put(look, story.said, (words, notices), wanted)

    def selected(self) -> Selected:
        said = self._under_cursor()
        return Selected(member=None if said is None else said.sender)

    def details(self) -> tuple[str, Blocks] | None:
        said = self._under_cursor()
        if said is None or self._look is None:
            return None
        title = f"{clock(said.at_ms)} {self._look.route(said)}"
        return title, [(self._look.text(said), "")]

    def _line(self, said: Said, width: int) -> Text:
        line = styled(f"{clock(said.at_ms)} ", "muted")
        look = self._look
        shown = said.sender if look is None else look.sender(said)
        line.append_text(self.terminal.column(shown, _WHO, self._colors.get(said.sender, "")))
        line.append_text(styled(f" {self.terminal.glyph('to')} ", "muted"))
        line.append_text(
            self._shown_name(said.to[0] if len(said.to) == 1 else f"{len(said.to)} members")
        )
        text = self.terminal.fit(
            "" if look is None else look.text(said), max(8, width - 2 * _WHO - 13)
        )
        line.append_text(styled(f" {text}", "muted" if said.kind else ""))
        return line

    def _shown_name(self, name: str) -> Text:
        shown = name if self._look is None else self._look.name(name)
        return self.terminal.column(shown, _WHO, self._colors.get(name, ""))


def _matches(said: Said, words: str, notices: bool, story: Story) -> bool:
    """Whether a message has all the words, with `from:NAME` and `to:NAME` for its members."""
    if said.kind is not None and not notices:
        return False
    sender = f"{said.sender} {story.shown_sender(said)}"
    to = " ".join(f"{name} {story.shown_name(name)}" for name in said.to)
    rest: list[str] = []
    for word in words.split():
        key, colon, value = word.casefold().partition(":")
        names = {"from": sender, "to": to}.get(key) if colon else None
        if names is None:
            rest.append(word)
        elif value not in names.casefold():
            return False
    return not rest or among(" ".join(rest), sender, to, sentences.body(said.message))


class LogPane(FeedPane[NewsItem]):
    """What happened, in words."""

    def __init__(self, terminal: TerminalText) -> None:
        super().__init__(terminal, dom_id="log")

    def show(self, look: TeamLook) -> None:
        words, story = self.words, look.story
        wanted = None if not words else lambda item: among(words, item.text, story.shown_news(item))
        self._put(look, story.told, words, wanted)

    def details(self) -> tuple[str, Blocks] | None:
        item = self._under_cursor()
        return None if item is None else (clock(item.at_ms), [(self._words(item), "")])

    def _line(self, item: NewsItem, width: int) -> Text:
        line = styled(f"{clock(item.at_ms)} ", "muted")
        text = self._words(item)
        line.append_text(styled(self.terminal.fit(text, max(8, width - 9))))
        return line

    def _words(self, item: NewsItem) -> str:
        text = self._story.shown_news(item)
        return text if self._look is None else self._look.words(text)
