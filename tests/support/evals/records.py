"""Results of evals that nobody ran, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bullpen.runs.eval.plan import Part, planned
from bullpen.runs.eval.results import Results, TrialRecord
from bullpen.runs.eval.statistics import Measures

ABOUT: dict[str, Any] = {
    "suite": "s",
    "suite_digest": "d",
    "arms": ["solo", "team"],
    "repeat": 1,
    "budget_usd": None,
    "part": None,
    "driver": "scripted",
    "model": None,
}


def make_results(
    folder: Path,
    passed: Mapping[str, int],
    *,
    tasks: int = 20,
    usd: Mapping[str, float] | None = None,
    part: Part | None = None,
    host: str = "here",
) -> Path:
    """Write results in which each arm passed that many tasks; `usd` is what each trial cost."""
    names = [f"t{number:02}" for number in range(tasks)]
    results = Results(folder)
    said = None if part is None else str(part)
    results.begin({**ABOUT, "tasks": names, "arms": list(passed), "part": said})
    part = part or Part(1, 1)
    for trial in planned(names, list(passed), repeat=1, budget_usd=None, part=part):
        is_passed = names.index(trial.task) < passed[trial.arm]
        results.record(
            TrialRecord(
                trial.task,
                trial.arm,
                trial.number,
                "passed" if is_passed else "failed",
                "" if is_passed else "the tests ended with exit code 1",
                Measures(usd=(usd or {}).get(trial.arm, 1.0)),
                host=host,
            )
        )
    return folder
