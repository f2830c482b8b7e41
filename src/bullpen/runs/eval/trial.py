"""Does one trial: a fresh clone, the work of an arm, then the verdict in another fresh clone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path

from anyio import to_thread

from bullpen.agents.system.processes import host_name
from bullpen.errors import BullpenError, Refused
from bullpen.protocol.clock import iso, now_ms
from bullpen.protocol.policy import Sandbox
from bullpen.runs.eval import arms
from bullpen.runs.eval.arms import ArmAgents
from bullpen.runs.eval.clones import NotCopied, make_clone, remove_file, remove_tree, replace_files
from bullpen.runs.eval.plan import FREE_ARMS, Trial
from bullpen.runs.eval.results import TRIALS, TrialRecord
from bullpen.runs.eval.sealed_team import Worked, end_leftovers, run_sealed
from bullpen.runs.eval.statistics import Measures
from bullpen.runs.eval.suite import SUITE_FILE, EvalTask, Suite
from bullpen.runs.eval.verdict import Judgement, judge, readable_inside, solve
from bullpen.runs.teamfile.read import TeamFile

_REVIEW_BYTES_MAX = 50_000
_OURS = "BULLPEN_"
_KEPT = ("BULLPEN_CONFIG", "BULLPEN_MODEL")


@dataclass(frozen=True, slots=True)
class Done:
    """The record of a trial, and what it left: the change and the output of the tests.

    `usd` is what was paid, also if nothing was judged; None if that could not be found out.
    """

    record: TrialRecord
    usd: float | None
    patch: str = ""
    output: str = ""


@dataclass(frozen=True, slots=True)
class TrialSetup:
    """What all trials of an eval have in common."""

    suite: Suite
    agents: ArmAgents
    # Where the results are: hidden from agents, as is the suite.
    results: Path
    environ: Mapping[str, str]


async def run_trial(trial: Trial, setup: TrialSetup, folder: Path) -> Done:
    """Do a trial in a folder, which is removed at the end."""
    task = setup.suite.task(trial.task)
    record = TrialRecord(
        trial.task,
        trial.arm,
        trial.number,
        "error",
        "",
        limit_usd=trial.usd,
        host=host_name(),
        began=iso(now_ms()),
    )
    work = _Work(trial, task, setup, folder)
    try:
        await clear(folder, setup.environ)
        await work.prepare()
        record = replace(record, status=await work.work())
        judgement = await work.judge()
    except (BullpenError, OSError) as error:
        record = replace(record, why=str(error), measures=work.measures)
        return Done(record, await _paid(work, folder, setup.environ))
    finally:
        # What cannot be removed now is in the way of the next attempt, which then says so.
        with suppress(OSError):
            await to_thread.run_sync(remove_folder, folder)
    return Done(
        replace(
            record,
            verdict="passed" if judgement.passed else "failed",
            why=judgement.why,
            measures=work.measures,
            changed_files=len(judgement.touched),
            put_back=judgement.put_back,
        ),
        work.measures.usd,
        judgement.patch,
        judgement.output,
    )


async def clear(folder: Path, environ: Mapping[str, str]) -> float | None:
    """Remove what a trial left, first its agents; what they have cost, None if unknown.

    Raises BullpenError, OSError.
    """
    is_there, homes = await to_thread.run_sync(
        lambda: (folder.exists(), sorted(folder.glob("home-*")))
    )
    found = [await end_leftovers(home, environ_of_trial(environ)) for home in homes]
    await to_thread.run_sync(remove_folder, folder)
    known = [usd for usd in found if usd is not None]
    return sum(known) if is_there and len(known) == len(found) else None


def remove_folder(folder: Path) -> None:
    """Remove the folder of a trial. Raises OSError.

    It gets another name first: what is left of it if that is cut off must not look like all that
    its agents had used.
    """
    removed = folder.with_name(f"{folder.name}.removed")
    remove_tree(removed)
    with suppress(FileNotFoundError):
        folder.rename(removed)
    remove_tree(removed)


def environ_of_trial(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a trial, without those of the caller's own team."""
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith(_OURS) or name in _KEPT
    }


async def _paid(work: _Work, folder: Path, environ: Mapping[str, str]) -> float | None:
    """Return what a trial that ended with an error has cost; None if that cannot be read."""
    if work.is_counted:
        return work.measures.usd
    try:
        return await clear(folder, environ)
    except (BullpenError, OSError):
        return None


class _Work:
    """One trial at work."""

    def __init__(self, trial: Trial, task: EvalTask, setup: TrialSetup, folder: Path) -> None:
        self.measures = Measures()
        # Whether `measures` has all that was used: not while agents work.
        self.is_counted = True
        self._trial = trial
        self._task = task
        self._setup = setup
        self._folder = folder
        self._clone = folder / "agents" / "project"
        self._sandbox = Sandbox.new(read=list(task.read), hosts=list(task.hosts))
        self._environ = environ_of_trial(setup.environ)

    async def prepare(self) -> None:
        """Make the clone, and check that its agents cannot see what is hidden. Raises Refused."""
        self._folder.mkdir(parents=True, mode=0o700)
        await to_thread.run_sync(make_clone, self._task, self._clone)
        if self._trial.arm in FREE_ARMS:
            return
        suite, task = self._setup.suite, self._task
        # The folder of the results is there itself: the clone is below it.
        hidden = [suite.folder / SUITE_FILE, task.folder, task.hidden, self._setup.results / TRIALS]
        if task.repository is not None:
            hidden.append(task.repository)
        home = self._folder / "home"
        home.mkdir()
        seen = await to_thread.run_sync(
            partial(
                readable_inside,
                hidden,
                self._clone,
                self._sandbox,
                self._environ,
                home,
            )
        )
        if seen:
            raise Refused(
                f"The agents of task {task.name!r} could read {seen[0]}.",
                reason="tests_visible",
                remedy="Move the suite, its repositories and the results out of system folders,"
                " out of what `read` names, and out of folders that are on the PATH.",
            )

    async def work(self) -> str:
        """Let the arm do the task; how that ended."""
        if self._trial.arm == "empty":
            return "done"
        if self._trial.arm == "oracle":
            await to_thread.run_sync(solve, self._task, self._clone, self._folder, self._environ)
            return "done"
        if self._trial.arm == "solo+review":
            return await self._reviewed()
        make = arms.team if self._trial.arm == "team" else arms.solo
        file = make(self._task, self._setup.agents, self._trial.usd)
        return (await self._run(file, self._clone)).outcome.status

    async def _reviewed(self) -> str:
        """Let one agent work, another one review it, and the first one correct what it found."""
        task, agents = self._task, self._setup.agents
        status = (
            await self._run(arms.solo(task, agents, self._left()), self._clone)
        ).outcome.status
        if self._is_spent():
            return status
        copy = self._folder / "review" / "project"
        await to_thread.run_sync(make_clone, task, copy)
        try:
            await to_thread.run_sync(replace_files, self._clone, copy)
        except NotCopied:
            # The verdict will say so.
            return status
        # What the first agent wrote there is no review.
        await to_thread.run_sync(remove_file, copy / arms.REVIEW_FILE)
        await self._run(arms.reviewer(task, agents, self._left()), copy)
        review = _read(copy / arms.REVIEW_FILE)
        if not review or review == arms.APPROVED or self._is_spent():
            return status
        file = arms.rework(task, agents, self._left(), review)
        return (await self._run(file, self._clone)).outcome.status

    def _left(self) -> float | None:
        return None if self._trial.usd is None else self._trial.usd - self.measures.usd

    def _is_spent(self) -> bool:
        left = self._left()
        return left is not None and left <= 0

    async def _run(self, file: TeamFile, cwd: Path) -> Worked:
        self.is_counted = False
        worked = await run_sealed(
            file,
            cwd=cwd,
            home=self._folder / f"home-{file.team.name}",
            sandbox=self._sandbox,
            environ=self._environ,
            timeout_s=self._task.timeout_s,
        )
        self.measures = _sum(self.measures, worked.measures)
        self.is_counted = True
        return worked

    async def judge(self) -> Judgement:
        """Judge the files of the clone as they are now. All agents have ended."""
        return await to_thread.run_sync(
            judge, self._task, self._clone, self._folder / "verdict", self._environ
        )


def _sum(one: Measures, two: Measures) -> Measures:
    return Measures(
        **{each.name: getattr(one, each.name) + getattr(two, each.name) for each in fields(one)}
    )


def _read(path: Path) -> str:
    """Return what a reviewer wrote; nothing if it wrote no ordinary file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            data = file.read(_REVIEW_BYTES_MAX)
    except OSError:
        return ""
    return data.decode("utf-8", "replace").strip()
