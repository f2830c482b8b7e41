"""Estimates what doing tasks side by side saved, and what that cost. Pure.

One agent would have done the same tasks one after another. How long it needs for each is known
only if some tasks were done alone: otherwise the estimate has no interval, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import sqrt

_T = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""Student's t for 95 %, by degrees of freedom from 1 on; from the last on 2 is near enough."""

LEAST = 3
"""How many tasks that one agent did alone an interval needs."""


@dataclass(frozen=True, slots=True)
class WorkedTask:
    """A finished task: when it was worked on, its weight and cost, and whether one agent did it."""

    began_s: float
    ended_s: float
    weight: float
    usd: float
    alone: bool


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number, and between what it lies with a certainty of 95 %, if that is known."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Saved:
    """What a team saved, and what it cost more than one agent would have."""

    seconds: Estimate
    usd: Estimate

    @property
    def words(self) -> str:
        """Return it as one sentence."""
        spent = max(0.0, self.usd.value)
        cost = f"${spent:.2f}{_between(self.usd, '${:.2f}', 1)}"
        minutes = self.seconds.value / 60
        if minutes < 1:
            text = f"The team cost {cost} more than one agent, and saved no time"
        else:
            about = f"{minutes:.0f} min{_between(self.seconds, '{:.0f}', 60)}"
            text = f"The team saved {about} for {cost}"
        if self.seconds.low is None:
            return f"{text} (an estimate: too few tasks were done by one agent alone to compare)."
        return f"{text}."


def saved(tasks: Sequence[WorkedTask], coordination_usd: float) -> Saved | None:
    """Return what was saved; None if nothing was done by a team."""
    team = [task for task in tasks if not task.alone]
    alone = [task for task in tasks if task.alone]
    if not team:
        return None
    took = _covered(team)
    if len(alone) < LEAST:
        one_by_one = sum(map(_length, team))
        return Saved(Estimate(one_by_one - took), Estimate(coordination_usd))
    weight = sum(task.weight for task in team)
    pace, price = _ratio(alone, _length), _ratio(alone, lambda task: task.usd)
    spent = coordination_usd + sum(task.usd for task in team)
    return Saved(
        _interval(pace.value * weight - took, pace.error * weight),
        _interval(spent - price.value * weight, price.error * weight),
    )


@dataclass(frozen=True, slots=True)
class _Ratio:
    """Something per weight, and how far it may be off."""

    value: float
    error: float


def _ratio(tasks: Sequence[WorkedTask], of: Callable[[WorkedTask], float]) -> _Ratio:
    weight = sum(task.weight for task in tasks)
    ratio = sum(map(of, tasks)) / weight
    count = len(tasks)
    off = sum((of(task) - ratio * task.weight) ** 2 for task in tasks)
    times = _T[count - 2] if count - 2 < len(_T) else 2.0
    return _Ratio(ratio, times * sqrt(off * count / (count - 1)) / weight)


def _interval(value: float, error: float) -> Estimate:
    return Estimate(value, value - error, value + error)


def _covered(tasks: Iterable[WorkedTask]) -> float:
    """How long at least one of the tasks was worked on."""
    total, until = 0.0, float("-inf")
    for task in sorted(tasks, key=lambda each: each.began_s):
        total += max(0.0, task.ended_s - max(task.began_s, until))
        until = max(until, task.ended_s)
    return total


def _length(task: WorkedTask) -> float:
    return max(0.0, task.ended_s - task.began_s)


def _between(number: Estimate, form: str, unit: float) -> str:
    if number.low is None or number.high is None:
        return ""
    return f" ({form.format(number.low / unit)} to {form.format(number.high / unit)})"
