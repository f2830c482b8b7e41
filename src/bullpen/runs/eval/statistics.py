"""What the trials of an eval say about each arm: rates with intervals, cost and time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb, sqrt
from typing import Literal

from bullpen.runs.eval.plan import PAID_ARMS

Verdict = Literal["passed", "failed", "error"]
"""`error`: the trial could not be run or judged. It says nothing about the arm."""

Z95 = 1.959963984540054
"""How many standard deviations an interval of 95 % has on each side."""


@dataclass(frozen=True, slots=True)
class Measures:
    """What one trial used and did."""

    usd: float = 0.0
    tokens: int = 0
    seconds: float = 0.0
    turns: int = 0
    # Answered model requests whose price is not known.
    unpriced: int = 0
    coordination_usd: float = 0.0
    coordination_tokens: int = 0
    conflicts: int = 0
    questions: int = 0


@dataclass(frozen=True, slots=True)
class Judged:
    """One trial, as far as the numbers of a report need it."""

    task: str
    arm: str
    verdict: Verdict
    measures: Measures


@dataclass(frozen=True, slots=True)
class Interval:
    """A share, and between what it lies with a certainty of 95 %."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ArmFigures:
    """What all trials of one arm say."""

    arm: str
    trials: int
    passed: int
    errors: int
    # None if no trial could be judged.
    rate: Interval | None
    usd: float
    seconds: float
    tokens: int
    unpriced: int
    # None if nothing was accepted.
    usd_per_accepted: float | None
    seconds_per_accepted: float | None
    # None if nothing was used.
    coordination_share: float | None
    conflicts: int
    questions: int
    by_task: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two arms on the tasks that both were judged on. `better` is the arm that surely passes more.

    `first_only` are the tasks where the first arm passed more often than the second one.
    """

    first: str
    second: str
    first_only: int
    second_only: int
    even: int
    # Corrected for the number of pairs of arms with agents.
    p_value: float

    @property
    def better(self) -> str | None:
        """Return the arm that surely passes more, or None."""
        if self.p_value >= 0.05:
            return None
        return self.first if self.first_only > self.second_only else self.second


def wilson(passed: float, trials: int, z: float = Z95) -> Interval:
    """Return the share that passed, with Wilson's score interval. It needs one trial at least.

    `passed` is a fraction where one task was tried several times and counts once.
    """
    share = passed / trials
    below = 1 + z * z / trials
    middle = (share + z * z / (2 * trials)) / below
    reach = z * sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / below
    # Rounding must not leave the ends a hair inside.
    low = 0.0 if passed == 0 else middle - reach
    high = 1.0 if passed == trials else middle + reach
    return Interval(share, max(0.0, low), min(1.0, high))


def figures(trials: Iterable[Judged], arms: Sequence[str]) -> list[ArmFigures]:
    """Return what the trials say about each arm, in the order of `arms`."""
    by_arm: dict[str, list[Judged]] = {arm: [] for arm in arms}
    for trial in trials:
        by_arm.setdefault(trial.arm, []).append(trial)
    return [_of_arm(arm, found) for arm, found in by_arm.items()]


def _of_arm(arm: str, trials: Sequence[Judged]) -> ArmFigures:
    judged = [trial for trial in trials if trial.verdict != "error"]
    passed = sum(trial.verdict == "passed" for trial in judged)
    # What broken trials used was paid as well, but nothing can be said about it.
    used = [trial.measures for trial in judged]
    usd, seconds = sum(each.usd for each in used), sum(each.seconds for each in used)
    tasks: dict[str, tuple[int, int]] = {}
    for trial in judged:
        won, all_of = tasks.get(trial.task, (0, 0))
        tasks[trial.task] = won + (trial.verdict == "passed"), all_of + 1
    return ArmFigures(
        arm=arm,
        trials=len(judged),
        passed=passed,
        errors=len(trials) - len(judged),
        rate=wilson(passed, len(judged)) if judged else None,
        usd=usd,
        seconds=seconds,
        tokens=sum(each.tokens for each in used),
        unpriced=sum(each.unpriced for each in used),
        usd_per_accepted=usd / passed if passed else None,
        seconds_per_accepted=seconds / passed if passed else None,
        coordination_share=_coordination(used),
        conflicts=sum(each.conflicts for each in used),
        questions=sum(each.questions for each in used),
        by_task=tasks,
    )


def _coordination(used: Sequence[Measures]) -> float | None:
    """Return the share of coordination: of the money if all prices are known, else of tokens."""
    usd = sum(each.usd for each in used)
    if usd and not any(each.unpriced for each in used):
        return sum(each.coordination_usd for each in used) / usd
    tokens = sum(each.tokens for each in used)
    return sum(each.coordination_tokens for each in used) / tokens if tokens else None


def compared(found: Sequence[ArmFigures]) -> list[Comparison]:
    """Return each pair of arms, compared task by task with a sign test.

    Of many pairs, one differs by chance: the odds are corrected for the number of pairs by Holm's
    method. Arms without agents check the suite, so that pairs with them are not among these.
    """
    pairs = [(one, two) for n, one in enumerate(found) for two in found[n + 1 :]]
    made = [_compared(one, two) for one, two in pairs]
    asked = [each for each in made if {each.first, each.second} <= set(PAID_ARMS)]
    corrected = iter(holm([each.p_value for each in asked]))
    return [replace(each, p_value=next(corrected)) if each in asked else each for each in made]


def holm(odds: Sequence[float]) -> list[float]:
    """Return the odds of several tests, corrected for how many there are, in the same order."""
    order = sorted(range(len(odds)), key=lambda at: odds[at])
    found, least = [0.0] * len(odds), 0.0
    for rank, at in enumerate(order):
        least = max(least, min(1.0, odds[at] * (len(odds) - rank)))
        found[at] = least
    return found


def _compared(one: ArmFigures, two: ArmFigures) -> Comparison:
    both = [task for task in one.by_task if task in two.by_task]
    differ = [_share(one, task) - _share(two, task) for task in both]
    first, second = sum(each > 0 for each in differ), sum(each < 0 for each in differ)
    even = len(both) - first - second
    return Comparison(one.arm, two.arm, first, second, even, sign_test(first, second))


def _share(arm: ArmFigures, task: str) -> float:
    passed, trials = arm.by_task[task]
    return passed / trials


def sign_test(first: int, second: int) -> float:
    """Return how likely a difference at least this large is if both are equally good."""
    count, fewer = first + second, min(first, second)
    tail = sum(comb(count, each) for each in range(fewer + 1))
    return float(min(1.0, tail * 2 / 2**count))
