"""What evals say about the shapes of work: for the choice of `--shape auto`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bullpen.protocol.task import Shape
from bullpen.runs.eval.statistics import ArmFigures, Judged, figures, wilson
from bullpen.team.budget.shape import Measured

SHAPES: tuple[Shape, ...] = ("solo", "solo+review", "team")
"""The arms that are a shape of work; they have the same names."""

TASKS_MIN = 10
"""With fewer tasks that all shapes were judged on, an eval says nothing about a choice."""


def measured_shapes(trials: Iterable[Judged]) -> dict[Shape, Measured]:
    """Return the pass rate and the price of each shape, by the tasks that all were judged on.

    Nothing if these are too few. New tasks are other tasks, so that the interval counts tasks: to
    repeat the same ones makes it no smaller.
    """
    judged = [trial for trial in trials if trial.verdict != "error" and trial.arm in SHAPES]
    tasks = {
        arm.arm: set(arm.by_task)
        for arm in figures(judged, SHAPES)
        if len(arm.by_task) >= TASKS_MIN
    }
    common = set.intersection(*tasks.values()) if tasks else set()
    if len(common) < TASKS_MIN:
        return {}
    shown = [trial for trial in judged if trial.arm in tasks and trial.task in common]
    by_arm = {arm.arm: arm for arm in figures(shown, ())}
    return {shape: _measured(by_arm[shape]) for shape in SHAPES if shape in by_arm}


def _measured(arm: ArmFigures) -> Measured:
    rate = wilson(_tasks_passed(tuple(arm.by_task.values())), len(arm.by_task))
    # A price of which a part is not known would make the arm look cheaper than it is.
    is_priced = arm.usd > 0 and not arm.unpriced
    return Measured(rate.low, rate.high, arm.usd_per_accepted if is_priced else None)


def _tasks_passed(tasks: Sequence[tuple[int, int]]) -> float:
    """Return how many tasks were passed; one that passed in half of its trials counts half."""
    return sum(passed / trials for passed, trials in tasks)
