"""Which trials an eval has, in which order, and what each may cost. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import lcm

from bullpen.errors import Invalid

PAID_ARMS = ("solo", "solo+review", "team")
"""The arms in which agents work."""

FREE_ARMS = ("oracle", "empty")
"""The arms that check a suite: one applies the known solution, one does nothing."""

ARMS = (*PAID_ARMS, *FREE_ARMS)


@dataclass(frozen=True, slots=True)
class Trial:
    """One arm on one task, for the n-th time."""

    task: str
    arm: str
    number: int
    # The most that it may cost; 0.0 for an arm without agents, None without a limit.
    usd: float | None

    @property
    def id(self) -> str:
        """Return its name, which is also the name of its files."""
        return f"{self.task}--{self.arm}--{self.number}"

    @property
    def folder(self) -> str:
        """Return the name of the folder it works in, which tells its agents nothing."""
        return hashlib.sha256(self.id.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Part:
    """One of several parts of an eval, each of which may run on another host."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


WHOLE = Part(1, 1)


def read_part(text: str) -> Part:
    """Return the part that a text such as `2/3` names. Raises Invalid."""
    found = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text)
    part = WHOLE if found is None else Part(int(found[1]), int(found[2]))
    if found is None or not 1 <= part.number <= part.of:
        raise Invalid(
            f"{text!r} is not a part of an eval.",
            remedy="Name one as NUMBER/PARTS: --part 1/3, then --part 2/3 and --part 3/3.",
        )
    return part


def read_arms(text: str) -> tuple[str, ...]:
    """Return the arms that a text names. Raises Invalid."""
    named = [word.strip() for word in text.split(",") if word.strip()]
    unknown = [arm for arm in named if arm not in ARMS]
    if unknown or not named:
        what = f"There is no arm {unknown[0]!r}." if unknown else "No arm is named."
        raise Invalid(what, remedy=f"Name some of these, with commas: {', '.join(ARMS)}.")
    return tuple(dict.fromkeys(named))


def planned(
    tasks: Sequence[str],
    arms: Sequence[str],
    *,
    repeat: int,
    budget_usd: float | None,
    part: Part = WHOLE,
) -> list[Trial]:
    """Return all trials of a part. Each paid one may cost the same, whatever its part.

    All arms try a task for the n-th time in the same part, so that every part has equal arms. Arms
    take turns at being first, so that none always runs while the machine is busier.
    """
    paid = [arm for arm in arms if arm in PAID_ARMS]
    count = len(tasks) * len(paid) * repeat
    share = None if budget_usd is None or not count else budget_usd / count
    found: list[Trial] = []
    for number in range(1, repeat + 1):
        own = [
            task
            for at, task in enumerate(tasks)
            if _part_of((number - 1) * len(tasks) + at, len(tasks), part.of) == part.number
        ]
        for at, task in enumerate(own):
            first = (number - 1 + at) % len(arms)
            turn = (*arms[first:], *arms[:first])
            found += [Trial(task, arm, number, share if arm in paid else 0.0) for arm in turn]
    return found


def _part_of(at: int, tasks: int, parts: int) -> int:
    """Return the part that all arms of one try of a task belong to: they take turns.

    If every part had its turn equally often at the end of the tasks, the next round begins with
    another one: otherwise a task would always be in the same part.
    """
    return (at + at // lcm(tasks, parts)) % parts + 1


def money_for(trials: Iterable[Trial], budget_usd: float | None) -> float | None:
    """Return what these trials may cost together: their share of the budget of the whole eval."""
    return None if budget_usd is None else sum(trial.usd or 0.0 for trial in trials)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A try to run a trial, which may cost money. `usd` is None until it is known what it cost."""

    trial: str
    number: int
    limit_usd: float | None
    usd: float | None = None
    host: str = ""
    began: str = ""

    @property
    def spent(self) -> float:
        """Return what it cost; as long as that is not known, all that it may cost."""
        return (self.limit_usd or 0.0) if self.usd is None else self.usd


def affordable(trial: Trial, attempts: Sequence[Attempt], money: float | None) -> bool:
    """Return whether a trial may use its whole limit, after all that was tried so far.

    The limits of what is started never add up to more than the money. A request in progress when a
    limit is reached is still paid, so that an attempt can cost more than its limit: if that uses up
    the money, nothing more is started.
    """
    if not trial.usd or money is None:
        return True
    spent = sum(each.spent for each in attempts)
    within = sum(min(each.spent, each.limit_usd or 0.0) for each in attempts)
    # The shares of a budget do not add up to it exactly.
    return spent < money and within + trial.usd <= money * (1 + 1e-9)
