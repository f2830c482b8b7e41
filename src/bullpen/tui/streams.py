"""What was said and what happened, newest last."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult

from bullpen.tui.ink import Ink, clock, styled
from bullpen.tui.lines import Lines
from bullpen.tui.pane import Chosen, Look, Pane, Sieve, among
from bullpen.view import sentences
from bullpen.view.story import Said, Story, Told

_WHO = 14


class MessagesPane(Pane):
    """Who wrote what to whom. Notices are what the programs tell each other."""

    def __init__(self, ink: Ink) -> None:
        super().__init__(ink, dom_id="messages")
        self._lines = Lines(follow=True)
        self._sieve: Sieve[Said] = Sieve()
        self._count = 0
        self._searched: tuple[str, bool] | None = None
        self._colors: dict[str, str] = {}
        self.notices = False

    def compose(self) -> ComposeResult:
        """The lines."""
        yield self._lines

    def focus_list(self) -> None:
        """Let the keys go to the lines."""
        self._lines.focus()

    def show(self, look: Look) -> None:
        """Show what was said so far."""
        search = (self.words, self.notices)
        anew = search != self._searched
        if anew:
            self._searched = search
            words, notices = self.words, self.notices
            self._sieve.begin(
                None if notices and not words else lambda said: _fits(said, words, notices)
            )
        self._colors = {card.name: card.color or "" for card in look.scene.members}
        self._count = self._sieve.look(look.story.said)
        self._lines.put(self._count or 1, self._row, at=max(0, self._count - 1) if anew else None)

    def chosen(self) -> Chosen:
        """Whoever wrote the message under the cursor."""
        said = self.said()
        return Chosen(member=None if said is None else said.sender)

    def said(self) -> Said | None:
        """The message under the cursor."""
        at = self._lines.cursor
        return self._sieve[at] if at is not None and at < self._count else None

    def _row(self, number: int, width: int) -> Text:
        if not self._count:
            none = "Nobody has written anything yet."
            return styled(none if not self.words else "No message is like this.", "muted")
        said = self._sieve[number]
        line = styled(f"{clock(said.at_ms)} ", "muted")
        line.append_text(self.ink.column(said.sender, _WHO, self._colors.get(said.sender, "")))
        line.append_text(styled(f" {self.ink.glyph('to')} ", "muted"))
        to = said.to[0] if len(said.to) == 1 else f"{len(said.to)} members"
        line.append_text(self.ink.column(to, _WHO, self._colors.get(to, "")))
        text = self.ink.fit(sentences.body(said.message), max(8, width - 2 * _WHO - 13))
        line.append_text(styled(f" {text}", "muted" if said.kind else ""))
        return line


def _fits(said: Said, words: str, notices: bool) -> bool:
    """Whether a message is searched for: `from:NAME`, `to:NAME` and words of its text."""
    if said.kind is not None and not notices:
        return False
    rest: list[str] = []
    for word in words.split():
        key, colon, value = word.casefold().partition(":")
        if colon and key == "from":
            if value not in said.sender.casefold():
                return False
        elif colon and key == "to":
            if not any(value in to.casefold() for to in said.to):
                return False
        else:
            rest.append(word)
    return not rest or among(" ".join(rest), said.sender, *said.to, sentences.body(said.message))


class LogPane(Pane):
    """What happened, in words."""

    def __init__(self, ink: Ink) -> None:
        super().__init__(ink, dom_id="log")
        self._lines = Lines(follow=True)
        self._sieve: Sieve[Told] = Sieve()
        self._searched: str | None = None
        self._count = 0

    def compose(self) -> ComposeResult:
        """The lines."""
        yield self._lines

    def focus_list(self) -> None:
        """Let the keys go to the lines."""
        self._lines.focus()

    def show(self, look: Look) -> None:
        """Show what happened so far."""
        anew = self.words != self._searched
        if anew:
            words = self._searched = self.words
            self._sieve.begin(None if not words else lambda told: among(words, told.text))
        self._count = self._sieve.look(look.story.told)
        self._lines.put(self._count or 1, self._row, at=max(0, self._count - 1) if anew else None)

    def told(self) -> Told | None:
        """What is under the cursor."""
        at = self._lines.cursor
        return self._sieve[at] if at is not None and at < self._count else None

    def _row(self, number: int, width: int) -> Text:
        if not self._count:
            return styled(
                "Nothing here yet." if not self.words else "Nothing is like this.", "muted"
            )
        told = self._sieve[number]
        line = styled(f"{clock(told.at_ms)} ", "muted")
        line.append_text(styled(self.ink.fit(told.text, max(8, width - 9))))
        return line


def mail_of(story: Story, name: str, last: int) -> list[Said]:
    """The last messages from and to a member."""
    found: list[Said] = []
    for said in reversed(story.said):
        if said.sender == name or name in said.to:
            found.append(said)
            if len(found) == last:
                break
    return found[::-1]
