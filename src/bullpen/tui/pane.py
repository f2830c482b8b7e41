"""What the pages of a team have in common: what they show, and the words it is searched by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from textual.containers import Vertical

from bullpen.tui.ink import Ink
from bullpen.view.scene import AskCard, MemberCard, Scene, TaskCard
from bullpen.view.story import Story

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Look:
    """A team at one moment, with its story so far."""

    scene: Scene
    story: Story
    now_ms: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """What somebody has chosen on a page."""

    member: str | None = None
    task: str | None = None
    ask: AskCard | None = None


class Pane(Vertical):
    """A page of a team."""

    def __init__(self, ink: Ink, *, dom_id: str) -> None:
        super().__init__(id=dom_id)
        self.ink = ink
        self.words = ""

    def show(self, look: Look) -> None:
        """Show the team as it is now."""
        raise NotImplementedError

    def focus_list(self) -> None:
        """Let the keys go to what can be chosen from."""
        raise NotImplementedError

    def age(self, now_ms: int) -> None:
        """Let what is in sight grow older."""

    def chosen(self) -> Chosen:
        """What an action is about."""
        return Chosen()


@dataclass(slots=True)
class Sieve(Generic[T]):
    """Those of a growing list that are searched for. What was looked at is not looked at again."""

    _source: Sequence[T] = ()
    _wanted: Callable[[T], bool] | None = None
    _found: list[int] = field(default_factory=list)
    _seen: int = 0

    def begin(self, wanted: Callable[[T], bool] | None) -> None:
        """Search for something else, or for everything."""
        self._wanted, self._found, self._seen = wanted, [], 0

    def look(self, source: Sequence[T]) -> int:
        """Go on in the list; how many there are."""
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
    """Whether each of some words is in one of these texts."""
    parts = words.casefold().split()
    if not parts:
        return True
    folded = [text.casefold() for text in texts if text]
    return all(any(part in text for text in folded) for part in parts)


def member_fits(card: MemberCard, words: str) -> bool:
    """Whether a member is searched for."""
    return among(words, card.name, card.state, card.detail, card.driver, card.host, *card.tasks)


def task_fits(card: TaskCard, words: str) -> bool:
    """Whether a task is searched for."""
    return among(words, f"#{card.id}", card.subject, card.owner, card.state.replace("_", " "))
