"""Runs the trials of an eval: in parallel, resumable, also by several processes at once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from bullpen.agents.system.processes import host_name
from bullpen.errors import BullpenError, Invalid, one_error
from bullpen.protocol.clock import iso, now_ms
from bullpen.runs.eval.arms import ArmAgents
from bullpen.runs.eval.plan import PAID_ARMS, WHOLE, Attempt, Part, Trial, money_for, planned
from bullpen.runs.eval.results import Results, TrialRecord
from bullpen.runs.eval.suite import Suite, read_suite
from bullpen.runs.eval.trial import Done, TrialSetup, clear, run_trial
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
    # Only this part of the trials, with its share of the budget. Other hosts run the others.
    part: Part = WHOLE


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
    tasks = [suite.task(name).name for name in dict.fromkeys(request.tasks)] or [
        each.name for each in suite.tasks
    ]
    paid = [arm for arm in request.arms if arm in PAID_ARMS]
    if paid and request.budget_usd is None and request.agents.driver != "scripted":
        raise Invalid(
            "An eval with agents needs a budget: arms are compared at equal money.",
            remedy="Say how much all trials together may cost: --budget-usd 20.",
        )
    await to_thread.run_sync(check_sandbox)
    trials = planned(
        tasks,
        request.arms,
        repeat=request.repeat,
        budget_usd=request.budget_usd,
        part=request.part,
    )
    if not trials:
        raise Invalid(
            f"Part {request.part} of this eval has no trials.",
            remedy=f"Divide it into at most {len(tasks) * request.repeat} parts.",
        )
    results = Results(request.results)
    about = await to_thread.run_sync(_about, request, suite, tasks)
    await to_thread.run_sync(results.begin, about)
    setup = TrialSetup(suite, request.agents, results.folder, environ)
    run = _EvalRun(trials, setup, results, money_for(trials, request.budget_usd), tell)
    await _worked(run, request.jobs)
    if run.take_unpaid():
        # Others may have left more than their limits reserved.
        await _worked(run, request.jobs)
    return run.evaluated()


async def _worked(run: _EvalRun, jobs: int) -> None:
    with one_error():
        async with anyio.create_task_group() as group:
            for _ in range(jobs):
                group.start_soon(run.work)


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
        "part": None if request.part == WHOLE else str(request.part),
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
        money: float | None,
        tell: Tell,
    ) -> None:
        self._trials = trials
        self._waiting = list(trials)
        self._setup = setup
        self._results = results
        self._money = money
        self._tell = tell
        self._errors = 0
        self._unpaid: list[Trial] = []
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

    def take_unpaid(self) -> bool:
        """Let the trials that were not paid for wait again; False if there are none."""
        self._waiting, self._unpaid = self._unpaid, []
        return bool(self._waiting)

    async def _run(self, trial: Trial) -> None:
        attempts, folder = self._results.attempts, self._results.work / trial.folder
        attempt = None
        if trial.arm in PAID_ARMS:
            await self._settle(trial, folder)
            attempt = await to_thread.run_sync(
                lambda: attempts.begin(trial, self._money, host=host_name(), began=iso(now_ms()))
            )
            if attempt is None:
                self._unpaid.append(trial)
                return
        done = await run_trial(trial, self._setup, folder)
        self._errors += done.record.verdict == "error"
        # Not cut off half-way: the money is spent.
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._keep, done, attempt)
        self._tell(done.record, self._judged(), len(self._trials))

    async def _settle(self, trial: Trial, folder: Path) -> None:
        """Note what killed attempts at a trial have cost, as far as that can be read."""
        attempts = self._results.attempts
        killed = await to_thread.run_sync(attempts.killed, trial)
        if not killed:
            return
        try:
            usd = await clear(folder, self._setup.environ)
        except (BullpenError, OSError):
            # It counts with its limit.
            return
        if usd is not None:
            # What is left is of the last one.
            await to_thread.run_sync(attempts.end, killed[-1], usd)

    def _keep(self, done: Done, attempt: Attempt | None) -> None:
        self._results.record(done.record, patch=done.patch, output=done.output)
        if attempt is not None and done.usd is not None:
            self._results.attempts.end(attempt, done.usd)

    def _judged(self) -> int:
        return sum(self._results.is_recorded(trial) for trial in self._trials)

    def evaluated(self) -> Evaluated:
        """Return how far the eval is."""
        return Evaluated(
            len(self._trials), self._judged(), self._errors, len(self._unpaid), self._elsewhere
        )
