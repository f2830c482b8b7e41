"""Estimates what tasks may cost, from their effort and the prices of the models.

The numbers of requests and tokens are what agents typically need. The ranges are wide, because
nobody knows in advance how hard a task is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bullpen.protocol.agent import Usage
from bullpen.protocol.task import Effort

Price = Callable[[Usage], float | None]
"""Returns the price of some usage in dollars; None if it is unknown."""

_REQUESTS: dict[Effort, tuple[int, int]] = {
    "small": (4, 15),
    "medium": (12, 45),
    "large": (40, 150),
}
_TURNS: dict[Effort, tuple[int, int]] = {"small": (1, 3), "medium": (1, 6), "large": (2, 15)}
# Tokens of one request: new ones, cached ones and output.
_OF_REQUEST = ((800, 7_200, 200), (6_000, 19_000, 700))
# What a lead uses, as a fraction of what its team uses.
_OF_LEAD = (0.1, 0.4)


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the most that is likely; the money leaves out `unpriced` tasks."""

    turns: tuple[int, int] = (0, 0)
    tokens: tuple[int, int] = (0, 0)
    usd: tuple[float, float] = (0.0, 0.0)
    unpriced: int = 0

    def plus(self, other: Range) -> Range:
        """Return the sum of both."""
        return Range(
            (self.turns[0] + other.turns[0], self.turns[1] + other.turns[1]),
            (self.tokens[0] + other.tokens[0], self.tokens[1] + other.tokens[1]),
            (self.usd[0] + other.usd[0], self.usd[1] + other.usd[1]),
            self.unpriced + other.unpriced,
        )

    def times(self, low: float, high: float) -> Range:
        """Return a fraction of it."""
        return Range(
            (round(self.turns[0] * low), round(self.turns[1] * high)),
            (round(self.tokens[0] * low), round(self.tokens[1] * high)),
            (self.usd[0] * low, self.usd[1] * high),
            min(self.unpriced, 1),
        )


def of_task(effort: Effort | None, price: Price) -> Range:
    """Return what one task may cost."""
    size = effort or "medium"
    low, high = (
        _usage(count, *each) for count, each in zip(_REQUESTS[size], _OF_REQUEST, strict=True)
    )
    least, most = price(low), price(high)
    known = least is not None and most is not None
    return Range(
        _TURNS[size], (low.tokens, high.tokens), (least or 0.0, most or 0.0), 0 if known else 1
    )


def of_lead(tasks: Iterable[Effort | None], price: Price) -> Range:
    """Return what a lead may cost in addition to these tasks."""
    return together(of_task(effort, price) for effort in tasks).times(*_OF_LEAD)


def together(ranges: Iterable[Range]) -> Range:
    """Return the sum of all."""
    total = Range()
    for each in ranges:
        total = total.plus(each)
    return total


def free(_: Usage) -> float:
    """Return the price of a member that uses no model."""
    return 0.0


def _usage(requests: int, fresh: int, cached: int, answered: int) -> Usage:
    return Usage.new(
        requests=requests,
        cache_write_tokens=requests * fresh,
        cache_read_tokens=requests * cached,
        output_tokens=requests * answered,
    )
