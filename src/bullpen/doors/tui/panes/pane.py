"""What the pages of a team share: the team they show, the selection and the search."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from textual.containers import Vertical
from textual.widget import Widget

from bullpen.doors.tui.line_view import Blocks
from bullpen.doors.tui.terminal_text import TerminalText
from bullpen.protocol.names import LEAD, SHORT_LEAD
from bullpen.view import sentences
from bullpen.view.cards import MemberCard
from bullpen.view.news import YOU
from bullpen.view.scene import Scene
from bullpen.view.story import Said, Story

T = TypeVar("T")
_LEAD_WORD = re.compile(rf"(?<![\w./@-]){LEAD}(?![\w/@-]|\.\w)")


@dataclass(frozen=True, slots=True)
class TeamLook:
    """A team at one moment, with its story so far."""

    scene: Scene
    story: Story
    now_ms: int

    def name(self, name: str) -> str:
        """The name of a member as this screen shows it: the lead is `lead`, or `you`."""
        shown = self.story.shown_name(name)
        return SHORT_LEAD if shown == LEAD else shown

    def words(self, text: str) -> str:
        """A text of the program, with the lead named as this screen names it."""
        return _LEAD_WORD.sub(self.name(LEAD), text)

    def route(self, said: Said) -> str:
        """Who wrote a message to whom."""
        return f"{self.sender(said)} to {', '.join(map(self.name, said.to))}"

    def sender(self, said: Said) -> str:
        """Who wrote a message: `you` if a person did, or gave the answer that it tells of."""
        answer = self.story.answer_of(said)
        return self._named(self.story.shown_sender(said) if answer is None else answer[0])

    def text(self, said: Said) -> str:
        """What a message says, in words."""
        answer = self.story.answer_of(said)
        return self.words(sentences.body(said.message)) if answer is None else answer[1]

    def _named(self, shown: str) -> str:
        return shown if shown == YOU else self.name(shown)

    def member(self, name: str | None) -> MemberCard | None:
        return next((card for card in self.scene.members if card.name == name), None)


@dataclass(frozen=True, slots=True)
class Selected:
    """The member and the task that the line under the cursor is about."""

    member: str | None = None
    task: str | None = None


class Pane(Vertical):
    """A page of a team. `words` is what it is searched for."""

    def __init__(self, terminal: TerminalText, *, dom_id: str, main: Widget) -> None:
        """`main` is the widget that gets the keys."""
        super().__init__(id=dom_id)
        self.terminal, self.main = terminal, main
        self.words = ""

    def show(self, look: TeamLook) -> None:
        """Show the team as it is now."""
        raise NotImplementedError

    def age(self, now_ms: int) -> None:
        """Update the visible ages."""

    def selected(self) -> Selected:
        """What an action is about."""
        return Selected()

    def details(self) -> tuple[str, Blocks] | None:
        """The title and the full text of the line under the cursor, if it has one."""
        return None


@dataclass(slots=True)
class SearchFilter(Generic[T]):
    """The items of a growing list that match a search. Each item is checked once."""

    _source: Sequence[T] = ()
    _wanted: Callable[[T], bool] | None = None
    _found: list[int] = field(default_factory=list)
    _seen: int = 0

    def begin(self, wanted: Callable[[T], bool] | None) -> None:
        """Start another search; None matches everything."""
        self._wanted, self._found, self._seen = wanted, [], 0

    def look(self, source: Sequence[T]) -> int:
        """Check the items that are new; return how many match."""
        if source is not self._source:
            self._source, self._found, self._seen = source, [], 0
        if self._wanted is None:
            return len(source)
        for number in range(self._seen, len(source)):
            if self._wanted(source[number]):
                self._found.append(number)
        self._seen = len(source)
        return len(self._found)

    def __getitem__(self, number: int) -> T:
        return self._source[number if self._wanted is None else self._found[number]]


def among(words: str, *texts: str | None) -> bool:
    """Whether each word is in one of these texts."""
    folded = [text.casefold() for text in texts if text]
    return all(any(part in text for text in folded) for part in words.casefold().split())
