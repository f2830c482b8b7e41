"""Runs the trials of an eval: in parallel, resumable, also by several processes at once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from bullpen.errors import Invalid, one_error
from bullpen.runs.eval.arms import ArmAgents
from bullpen.runs.eval.plan import PAID_ARMS, Trial, affordable, planned
from bullpen.runs.eval.results import Results, TrialRecord
from bullpen.runs.eval.suite import Suite, read_suite
from bullpen.runs.eval.trial import TrialSetup, run_trial
from bullpen.sandbox.command import check_sandbox

Tell = Callable[[TrialRecord, int, int], None]
"""Is told a record, how many trials are done, and how many there are."""


@dataclass(frozen=True, slots=True)
class EvalRequest:
    """An eval that someone wants."""

    suite: Path
    results: Path
    arms: tuple[str, ...]
    agents: ArmAgents
    repeat: int = 1
    budget_usd: float | None = None
    # Only these tasks.
    tasks: tuple[str, ...] = ()
    jobs: int = 1


@dataclass(frozen=True, slots=True)
class Evaluated:
    """How far an eval is: how many trials there are, were judged, failed to run, were not paid."""

    trials: int
    judged: int
    errors: int
    unpaid: int
    # Trials that another process works on.
    elsewhere: int


async def evaluate(
    request: EvalRequest, environ: Mapping[str, str], tell: Tell = lambda *_: None
) -> Evaluated:
    """Run all trials that have no record yet.

    Raises:
        NotFound, Invalid: the suite or the team file cannot be used.
        Conflict: the results are of another eval.
        Unavailable: there is no sandbox.
    """
    suite = await to_thread.run_sync(read_suite, request.suite)
    if suite.folder.is_relative_to(request.results.resolve()):
        raise Invalid(
            "The suite is in the folder of the results.", remedy="Name another --results."
        )
    tasks = [suite.task(name).name for name in request.tasks] or [each.name for each in suite.tasks]
    paid = [arm for arm in request.arms if arm in PAID_ARMS]
    if paid and request.budget_usd is None and request.agents.driver != "scripted":
        raise Invalid(
            "An eval with agents needs a budget: arms are compared at equal money.",
            remedy="Say how much all trials together may cost: --budget-usd 20.",
        )
    await to_thread.run_sync(check_sandbox)
    trials = planned(tasks, request.arms, repeat=request.repeat, budget_usd=request.budget_usd)
    results = Results(request.results)
    about = await to_thread.run_sync(_about, request, suite, tasks)
    await to_thread.run_sync(results.begin, about)
    setup = TrialSetup(suite, request.agents, results.folder, environ)
    run = _EvalRun(trials, setup, results, request.budget_usd, tell)
    with one_error():
        async with anyio.create_task_group() as group:
            for _ in range(request.jobs):
                group.start_soon(run.work)
    return run.evaluated()


def _about(request: EvalRequest, suite: Suite, tasks: list[str]) -> dict[str, Any]:
    agents, team = request.agents, request.agents.team_file
    try:
        script = None if agents.script is None else agents.script.read_bytes()
        file = None if team is None else team.read_bytes()
    except OSError as error:
        raise Invalid(
            f"{error.filename} cannot be read.", remedy="Name a file that exists."
        ) from None
    return {
        "suite": suite.name,
        "suite_digest": suite.digest,
        "tasks": tasks,
        "arms": list(request.arms),
        "repeat": request.repeat,
        "budget_usd": request.budget_usd,
        "driver": agents.driver,
        "model": agents.model,
        "effort": agents.effort,
        "command": list(agents.command),
        "script_digest": _digest(script),
        "team_digest": _digest(file),
    }


def _digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()[:16]


class _EvalRun:
    """The trials of one eval, taken by the workers of this process."""

    def __init__(
        self,
        trials: list[Trial],
        setup: TrialSetup,
        results: Results,
        budget_usd: float | None,
        tell: Tell,
    ) -> None:
        self._trials = trials
        self._waiting = list(trials)
        self._setup = setup
        self._results = results
        self._budget = budget_usd
        self._tell = tell
        self._errors = 0
        self._unpaid = 0
        self._elsewhere = 0

    async def work(self) -> None:
        """Run one trial after another, as long as there are any."""
        while self._waiting:
            trial = self._waiting.pop(0)
            if self._results.is_recorded(trial):
                continue
            with self._results.claimed(trial) as is_ours:
                # Between the two looks, another process may have finished it.
                if not is_ours or self._results.is_recorded(trial):
                    self._elsewhere += not is_ours
                    continue
                await self._run(trial)

    async def _run(self, trial: Trial) -> None:
        records = await to_thread.run_sync(self._results.records)
        if not affordable(trial, [each.measures.usd for each in records], self._budget):
            self._unpaid += 1
            return
        done = await run_trial(trial, self._setup, self._results.work / trial.folder)
        self._errors += done.record.verdict == "error"
        # Not cut off half-way: the money is spent.
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(
                lambda: self._results.record(done.record, patch=done.patch, output=done.output)
            )
        self._tell(done.record, self._judged(), len(self._trials))

    def _judged(self) -> int:
        return sum(self._results.is_recorded(trial) for trial in self._trials)

    def evaluated(self) -> Evaluated:
        """Return how far the eval is."""
        return Evaluated(
            len(self._trials), self._judged(), self._errors, self._unpaid, self._elsewhere
        )
