"""What the results of an eval say so far, for every form of its report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bullpen.runs.eval.plan import planned
from bullpen.runs.eval.results import Results, TrialRecord
from bullpen.runs.eval.statistics import ArmFigures, Comparison, compared, figures


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


def report_of(folder: Path) -> EvalReport:
    """Return what the results in a folder say. Raises Unreadable."""
    results = Results(folder)
    about, records = results.about(), results.records()
    found = figures([record.judged for record in records], about["arms"])
    trials = planned(
        about["tasks"], about["arms"], repeat=about["repeat"], budget_usd=about["budget_usd"]
    )
    return EvalReport(
        suite=about["suite"],
        suite_digest=about["suite_digest"],
        driver=about["driver"],
        model=about["model"],
        repeat=about["repeat"],
        budget_usd=about["budget_usd"],
        trial_usd=max((each.usd for each in trials if each.usd), default=None),
        tasks=tuple(about["tasks"]),
        arms=tuple(found),
        comparisons=tuple(compared([each for each in found if each.trials])),
        records=tuple(records),
        missing=sum(not results.is_recorded(trial) for trial in trials),
    )
