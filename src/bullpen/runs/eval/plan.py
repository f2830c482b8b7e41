"""Which trials an eval has, in which order, and what each may cost. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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


def read_arms(text: str) -> tuple[str, ...]:
    """Return the arms that a text names. Raises Invalid."""
    named = [word.strip() for word in text.split(",") if word.strip()]
    unknown = [arm for arm in named if arm not in ARMS]
    if unknown or not named:
        what = f"There is no arm {unknown[0]!r}." if unknown else "No arm is named."
        raise Invalid(what, remedy=f"Name some of these, with commas: {', '.join(ARMS)}.")
    return tuple(dict.fromkeys(named))


def planned(
    tasks: Sequence[str], arms: Sequence[str], *, repeat: int, budget_usd: float | None
) -> list[Trial]:
    """Return all trials. Each paid one may cost the same, so that the arms get equal money.

    Arms take turns at being first, so that none always runs while the machine is busier.
    """
    paid = [arm for arm in arms if arm in PAID_ARMS]
    count = len(tasks) * len(paid) * repeat
    share = None if budget_usd is None or not count else budget_usd / count
    found: list[Trial] = []
    for number in range(1, repeat + 1):
        for at, task in enumerate(tasks):
            first = (number - 1 + at) % len(arms)
            turn = (*arms[first:], *arms[:first])
            found += [Trial(task, arm, number, share if arm in paid else 0.0) for arm in turn]
    return found


def affordable(trial: Trial, spent: Iterable[float], budget_usd: float | None) -> bool:
    """Return whether the budget of all trials leaves anything for one more."""
    return not trial.usd or budget_usd is None or sum(spent) < budget_usd
