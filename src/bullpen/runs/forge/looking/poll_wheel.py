"""Decides what to look at on a forge next, so that an idle team costs few requests. Pure.

Each look is repeated: the list of issues, the list of pull requests, and for each pull request its
verdicts, threads, reviews and comments. In each interval only as many requests are sent as there
are open pull requests, for the most overdue looks first; a look that needs more goes on in the next
interval. What has just changed is looked at more often for a while.
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

_BUSY_REQUESTS = 12
"""How many requests more each busy pull request may cost in an interval."""

RESERVE = 100
"""How many requests of the forge's limit are left for writes."""


@dataclass(frozen=True, slots=True)
class Look:
    """What is read again and again; `number` is that of a pull request."""

    kind: LookKind
    number: int = 0


@dataclass(frozen=True, slots=True)
class Round:
    """The looks to take now: those that somebody wants, and others as far as requests allow."""

    wanted: list[Look]
    rest: list[Look]
    # How many requests the rest may cost.
    most: int
    # How many all may cost, because the forge's limit is near; None for any number.
    limit: int | None = None


class PollWheel:
    """When each look was taken last, and what is busy."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._last: dict[Look, float] = {}
        self._hot: dict[int, float] = {}
        self._wanted: set[Look] = set()
        self._wants_all = False
        self._round_s = float("-inf")
        self._unfinished: Look | None = None

    @property
    def interval_s(self) -> float:
        """Return the seconds between two rounds."""
        return self._interval_s

    def stir(self, number: int, now_s: float) -> None:
        """Look at a pull request more often for a while: something changed there."""
        self._hot[number] = now_s + HOT_TURNS * self._interval_s

    def is_hot(self, number: int, now_s: float) -> bool:
        """Return whether something changed in a pull request a short time ago."""
        return self._hot.get(number, now_s) > now_s

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

    def due(self, numbers: Iterable[int], now_s: float, *, left: int | None = None) -> Round:
        """Return the looks to take now. `left` is how many requests the forge still allows.

        What was wanted counts as wanted once, whatever becomes of it.
        """
        open_now = sorted(set(numbers))
        self._forget_others(open_now)
        looks = [Look(kind) for kind in OF_ALL if kind == "issues" or open_now]
        looks += [Look(kind, number) for number in open_now for kind in OF_ONE]
        wanted = [look for look in looks if self._wants_all or look in self._wanted]
        self._wanted.clear()
        self._wants_all = False
        rest: list[Look] = []
        most = 0
        if now_s >= self._round_s + self._interval_s:
            self._round_s = now_s
            busy = {each for each in open_now if self.is_hot(each, now_s)}
            most = max(1, len(open_now)) + (len(busy) * _BUSY_REQUESTS + 1 if busy else 0)
            others = [look for look in looks if look not in wanted]
            others.sort(key=lambda look: -self._overdue(look, now_s, look.number in busy))
            rest = [
                look
                for look in others
                if look == self._unfinished
                or self._overdue(look, now_s, look.number in busy) >= 1.0
            ]
            rest.sort(key=lambda look: look != self._unfinished)
        return Round(wanted, rest, most, None if left is None else max(0, left - RESERVE))

    def taken(self, look: Look, now_s: float) -> None:
        """Note that a look was taken, or failed: it is tried again in its turn."""
        self._last[look] = now_s
        if look == self._unfinished:
            self._unfinished = None

    def unfinished(self, look: Look) -> None:
        """Note that a look needs more requests than were left: it goes on first."""
        self._unfinished = look

    def goes_on_with(self, look: Look) -> bool:
        """Return whether a look was begun before."""
        return look == self._unfinished

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
        if self._unfinished is not None and self._unfinished.number not in known:
            self._unfinished = None
