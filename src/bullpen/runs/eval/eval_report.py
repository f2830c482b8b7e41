"""What the results of an eval say so far, for every form of its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bullpen.errors import Conflict
from bullpen.protocol.task import Shape
from bullpen.runs.eval.past_shapes import measured_shapes
from bullpen.runs.eval.plan import planned
from bullpen.runs.eval.results import Results, TrialRecord, another_eval
from bullpen.runs.eval.statistics import ArmFigures, Comparison, compared, figures
from bullpen.team.budget.shape import Measured


@dataclass(frozen=True, slots=True)
class EvalReport:
    """The numbers of an eval, and the records that they come from."""

    suite: str
    suite_digest: str
    driver: str
    model: str | None
    repeat: int
    budget_usd: float | None
    # The most that one trial with agents could cost.
    trial_usd: float | None
    tasks: tuple[str, ...]
    arms: tuple[ArmFigures, ...]
    comparisons: tuple[Comparison, ...]
    records: tuple[TrialRecord, ...]
    # How many trials have no record, or only that they could not be run.
    missing: int
    # The parts of the eval in these folders; nothing if it is not in parts.
    parts: tuple[str, ...]
    # What was paid, also for trials that could not be run or were killed.
    spent_usd: float

    @property
    def hosts(self) -> Mapping[str, int]:
        """Return how many trials each host ran."""
        return dict(sorted(Counter(record.host for record in self.records).items()))

    @property
    def row(self) -> Mapping[str, Any]:
        """Return it for programs, without the records."""
        return {
            "suite": self.suite,
            "suiteDigest": self.suite_digest,
            "driver": self.driver,
            "model": self.model,
            "repeat": self.repeat,
            "budgetUsd": self.budget_usd,
            "trialUsd": self.trial_usd,
            "tasks": list(self.tasks),
            "missing": self.missing,
            "parts": list(self.parts),
            "hosts": [{"name": name, "trials": count} for name, count in self.hosts.items()],
            "spentUsd": self.spent_usd,
            "arms": [_arm(each) for each in self.arms],
            "comparisons": [
                {
                    "first": each.first,
                    "second": each.second,
                    "firstOnly": each.first_only,
                    "secondOnly": each.second_only,
                    "even": each.even,
                    "pValue": each.p_value,
                    "better": each.better,
                }
                for each in self.comparisons
            ],
        }


def _arm(arm: ArmFigures) -> dict[str, Any]:
    rate = arm.rate
    return {
        "arm": arm.arm,
        "trials": arm.trials,
        "passed": arm.passed,
        "errors": arm.errors,
        "rate": None if rate is None else rate.value,
        "rateLow": None if rate is None else rate.low,
        "rateHigh": None if rate is None else rate.high,
        "usd": arm.usd,
        "seconds": arm.seconds,
        "tokens": arm.tokens,
        "unpriced": arm.unpriced,
        "usdPerAccepted": arm.usd_per_accepted,
        "secondsPerAccepted": arm.seconds_per_accepted,
        "coordinationShare": arm.coordination_share,
        "conflicts": arm.conflicts,
        "questions": arm.questions,
    }


def report_of(*folders: Path) -> EvalReport:
    """Return what the results in some folders of one eval say together.

    Raises:
        NotFound, Unreadable: something cannot be read.
        Conflict: the folders are of different evals, or a trial has verdicts in two of them.
    """
    found = {each.folder: each for each in map(Results, folders)}
    first, *others = found.values()
    about = first.about()
    for each in others:
        _check_same(first, each)
    parts = {each.about().part for each in found.values()} - {None}
    attempts = {attempt for each in found.values() for attempt in each.attempts.all()}
    records = _merged(list(found.values()))
    by_arm = figures([record.judged for record in records], about.arms)
    trials = planned(about.tasks, about.arms, repeat=about.repeat, budget_usd=about.budget_usd)
    judged = {record.trial_id for record in records if record.verdict != "error"}
    return EvalReport(
        suite=about.suite,
        suite_digest=about.suite_digest,
        driver=about.driver,
        model=about.model,
        repeat=about.repeat,
        budget_usd=about.budget_usd,
        trial_usd=max((each.usd for each in trials if each.usd), default=None),
        tasks=tuple(about.tasks),
        arms=tuple(by_arm),
        comparisons=tuple(compared([each for each in by_arm if each.trials])),
        records=tuple(records),
        missing=sum(trial.id not in judged for trial in trials),
        parts=tuple(sorted(str(each) for each in parts)),
        spent_usd=sum(attempt.spent for attempt in attempts),
    )


def shapes_measured_in(*folders: Path) -> dict[Shape, Measured]:
    """Return what the results in some folders of one eval say about the shapes of work.

    Raises as `report_of` does.
    """
    return measured_shapes(record.judged for record in report_of(*folders).records)


def _check_same(one: Results, two: Results) -> None:
    """Check that two folders are of the same eval, if perhaps of other parts. Raises Conflict."""
    first, second = one.said(), two.said()
    two.about()
    keys = sorted((first.keys() | second.keys()) - {"part"})
    differ = [key for key in keys if first.get(key) != second.get(key)]
    if differ:
        raise another_eval(two.folder, differ, "Name only folders with results of one eval.")


def _merged(folders: Sequence[Results]) -> list[TrialRecord]:
    """Return one record for each trial, in the order of their names. Raises Conflict."""
    found: dict[str, tuple[Path, TrialRecord]] = {}
    for folder in folders:
        for record in folder.records():
            where, known = found.setdefault(record.trial_id, (folder.folder, record))
            if "error" not in {known.verdict, record.verdict} and known != record:
                raise Conflict(
                    f"Trial {record.trial_id} has a verdict in {where} and another one in"
                    f" {folder.folder}.",
                    remedy="Name only one of the two folders: a trial counts once.",
                )
            if known.verdict == "error" and (
                record.verdict != "error" or record.began > known.began
            ):
                found[record.trial_id] = (folder.folder, record)
    return [found[trial_id][1] for trial_id in sorted(found)]
