"""Decides what to look at on a forge next, so that an idle team costs few requests. Pure.

Each look is one request that is repeated: the list of issues, the list of pull requests, and for
each pull request its verdicts, threads, reviews and comments. In each interval only as many looks
are taken as there are open pull requests, the most overdue first. What has just changed is looked
at more often for a while.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

LookKind = Literal["issues", "pulls", "verdicts", "threads", "reviews", "comments"]

OF_ALL: tuple[LookKind, ...] = ("issues", "pulls")
OF_ONE: tuple[LookKind, ...] = ("verdicts", "threads", "reviews", "comments")

_TURNS: dict[LookKind, float] = {
    "issues": 1.0,
    "pulls": 1.0,
    "verdicts": 2.0,
    "threads": 4.0,
    "reviews": 4.0,
    "comments": 4.0,
}
"""How many intervals may pass between two looks, if the budget allows it."""

HOT_TURNS = 10
"""For how many intervals a pull request counts as busy after something changed."""

_BUSY_LOOKS = 4

RESERVE = 100
"""How many requests of the forge's limit are left for writes."""


@dataclass(frozen=True, slots=True)
class Look:
    """One request that is repeated; `number` is that of a pull request."""

    kind: LookKind
    number: int = 0


class PollWheel:
    """When each look was taken last, and what is busy."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._last: dict[Look, float] = {}
        self._hot: dict[int, float] = {}
        self._wanted: set[Look] = set()
        self._wants_all = False
        self._round_s = float("-inf")

    @property
    def interval_s(self) -> float:
        """Return the seconds between two rounds."""
        return self._interval_s

    def stir(self, number: int, now_s: float) -> None:
        """Look at a pull request more often for a while: something changed there."""
        self._hot[number] = now_s + HOT_TURNS * self._interval_s

    def hint(self, number: int | None, now_s: float) -> None:
        """Look at once at a pull request, or at the lists: somebody says that it changed."""
        self._wanted |= {Look(kind) for kind in OF_ALL}
        if number is not None:
            self._wanted |= {Look(kind, number) for kind in OF_ONE}
            self.stir(number, now_s)

    def hint_all(self) -> None:
        """Look at once at everything: somebody says that something changed, but not what."""
        self._wants_all = True

    def next_s(self, now_s: float) -> float:
        """Return in how many seconds there is something to look at."""
        is_wanted = self._wants_all or self._wanted
        return 0.0 if is_wanted else max(0.0, self._round_s + self._interval_s - now_s)

    def due(self, numbers: Iterable[int], now_s: float, *, left: int | None = None) -> list[Look]:
        """Return the looks to take now. `left` is how many requests the forge still allows.

        Taken or not, each counts as taken: what fails is tried again in its turn.
        """
        open_now = sorted(set(numbers))
        self._forget_others(open_now)
        looks = [Look(kind) for kind in OF_ALL if kind == "issues" or open_now]
        looks += [Look(kind, number) for number in open_now for kind in OF_ONE]
        chosen = [look for look in looks if self._wants_all or look in self._wanted]
        self._wanted.clear()
        self._wants_all = False
        if now_s >= self._round_s + self._interval_s:
            self._round_s = now_s
            busy = [each for each in open_now if self._hot.get(each, now_s) > now_s]
            budget = max(1, len(open_now)) + (len(busy) * _BUSY_LOOKS + 1 if busy else 0)
            rest = [look for look in looks if look not in chosen]
            rest.sort(key=lambda look: -self._overdue(look, now_s, look.number in busy))
            due = [look for look in rest if self._overdue(look, now_s, look.number in busy) >= 1.0]
            chosen += due[:budget]
        if left is not None:
            chosen = chosen[: max(0, left - RESERVE)]
        for look in chosen:
            self._last[look] = now_s
        return chosen

    def _overdue(self, look: Look, now_s: float, is_busy: bool) -> float:
        """Return how overdue a look is: 1.0 is just in time."""
        last = self._last.get(look)
        if last is None:
            return float("inf")
        turns = 0.5 if is_busy else _TURNS[look.kind]
        # A clock that wakes a little early must not cost a whole round.
        return (now_s - last) / (turns * self._interval_s) + 0.01

    def _forget_others(self, numbers: list[int]) -> None:
        known = {0, *numbers}
        self._last = {look: at for look, at in self._last.items() if look.number in known}
        self._hot = {number: at for number, at in self._hot.items() if number in known}
