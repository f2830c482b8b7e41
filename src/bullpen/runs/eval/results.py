"""The results of an eval on disk: one record per trial, written once, and who works on which.

Any number of processes can share the folder. A trial is taken with a lock on a file, which the
system releases when the process ends, also by a kill.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from bullpen.errors import Conflict, NotFound, Unreadable
from bullpen.runs.eval.plan import Trial
from bullpen.runs.eval.records.attempts import Attempts
from bullpen.runs.eval.records.files import FORMAT, checked, listed, put_once, read_json
from bullpen.runs.eval.statistics import Judged, Measures, Verdict
from bullpen.store.private_folder import make_private

TRIALS = "trials"
_EVAL_FILE = "eval.json"
_ERROR = ".error.json"


class About(BaseModel):
    """What an eval measures, as far as its report needs it."""

    suite: str
    suite_digest: str
    tasks: list[str]
    arms: list[str] = Field(min_length=1)
    repeat: int = Field(ge=1)
    budget_usd: float | None
    driver: str
    model: str | None
    # The part whose trials are in this folder; None for the whole.
    part: str | None = None


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """What came of one trial."""

    task: str
    arm: str
    number: int
    verdict: Verdict
    # Why it did not pass, or could not be run.
    why: str
    measures: Measures = field(default_factory=Measures)
    # How the run of the agents ended: done, failed, unfinished.
    status: str = ""
    limit_usd: float | None = None
    changed_files: int = 0
    # Changes to files that decide how tests run. They were put back.
    put_back: tuple[str, ...] = ()
    host: str = ""
    began: str = ""

    @property
    def trial_id(self) -> str:
        """Return the name of its trial."""
        return Trial(self.task, self.arm, self.number, self.limit_usd).id

    @property
    def judged(self) -> Judged:
        """Return what the numbers of a report need."""
        return Judged(self.task, self.arm, self.verdict, self.measures)


class Results:
    """The folder with the results of one eval."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.attempts = Attempts(self.folder / "attempts")

    @property
    def work(self) -> Path:
        """Return the folder in which trials work."""
        return self.folder / "work"

    def begin(self, about: dict[str, Any]) -> None:
        """Note what is measured. Raises Conflict if the folder has results of something else."""
        folders = (self.folder / TRIALS, self.folder / "claims", self.attempts.folder, self.work)
        for each in (self.folder, *folders):
            make_private(each)
        path = self.folder / _EVAL_FILE
        said = {"format": FORMAT, **about}
        if not path.exists():
            put_once(path, said)
        known = read_json(path)
        differ = [key for key in said if known.get(key) != said[key]]
        if differ:
            raise another_eval(
                self.folder,
                differ,
                "Name another folder with --results, or repeat the command as it was.",
            )

    def about(self) -> About:
        """Return what is measured. Raises NotFound, Unreadable."""
        return checked(self.folder / _EVAL_FILE, About, self.said())

    def said(self) -> dict[str, Any]:
        """Return all that was noted of what is measured. Raises NotFound, Unreadable."""
        return read_json(self.folder / _EVAL_FILE)

    @contextmanager
    def claimed(self, trial: Trial) -> Iterator[bool]:
        """Take a trial while nobody else has it; False if somebody has."""
        path = self.folder / "claims" / trial.id
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
        finally:
            os.close(descriptor)

    def is_recorded(self, trial: Trial) -> bool:
        """Return whether a trial was judged. One that could not be run is run again."""
        return self._path(trial.id).exists()

    def record(self, record: TrialRecord, *, patch: str = "", output: str = "") -> None:
        """Keep what came of a trial, durably. The record is written last, and only once."""
        trial_id = record.trial_id
        for text, suffix in ((patch, ".patch"), (output, ".txt")):
            # A killed attempt may have left another one.
            self._path(trial_id, suffix).unlink(missing_ok=True)
            if text:
                self._path(trial_id, suffix).write_text(text, "utf-8", "surrogateescape")
        errors = self._path(trial_id, _ERROR)
        said = {"format": FORMAT, **asdict(record)}
        if record.verdict == "error":
            errors.unlink(missing_ok=True)
            put_once(errors, said)
            return
        put_once(self._path(trial_id), said)
        errors.unlink(missing_ok=True)

    def records(self) -> list[TrialRecord]:
        """Return the record of each trial that has one. Raises Unreadable."""
        found: list[TrialRecord] = []
        for path in listed(self.folder / TRIALS):
            is_error = path.name.endswith(_ERROR)
            # An error is replaced by a verdict: there are both for a moment, or after a kill.
            if is_error and path.with_name(f"{path.name.removesuffix(_ERROR)}.json").exists():
                continue
            try:
                found.append(_record(path))
            except NotFound:
                # Another process has just tried it again.
                if not is_error:
                    raise
        return found

    def _path(self, trial_id: str, suffix: str = ".json") -> Path:
        return self.folder / TRIALS / f"{trial_id}{suffix}"


def another_eval(folder: Path, differ: Sequence[str], remedy: str) -> Conflict:
    """Return the error for results that are not of the same eval."""
    return Conflict(
        f"{folder} has the results of another eval: {', '.join(differ)} differ.", remedy=remedy
    )


def _record(path: Path) -> TrialRecord:
    record = checked(path, TrialRecord, read_json(path))
    if path.name not in {f"{record.trial_id}.json", f"{record.trial_id}{_ERROR}"}:
        raise Unreadable(
            str(path), f"it is about {record.trial_id}", remedy="Copy the folder again."
        )
    return record
