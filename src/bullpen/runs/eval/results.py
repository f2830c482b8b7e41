"""The results of an eval on disk: one record per trial, written once, and who works on which.

Any number of processes can share the folder. A trial is taken with a lock on a file, which the
system releases when the process ends, also by a kill.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bullpen.errors import Conflict, NotFound, Unreadable
from bullpen.runs.eval.plan import Trial
from bullpen.runs.eval.statistics import Judged, Measures, Verdict
from bullpen.store.private_folder import make_private

FORMAT = 1
TRIALS = "trials"
_EVAL_FILE = "eval.json"


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
    def judged(self) -> Judged:
        """Return what the numbers of a report need."""
        return Judged(self.task, self.arm, self.verdict, self.measures)


class Results:
    """The folder with the results of one eval."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    @property
    def work(self) -> Path:
        """Return the folder in which trials work."""
        return self.folder / "work"

    def begin(self, about: dict[str, Any]) -> None:
        """Note what is measured. Raises Conflict if the folder has results of something else."""
        for each in (self.folder, self.folder / TRIALS, self.folder / "claims", self.work):
            make_private(each)
        path = self.folder / _EVAL_FILE
        said = {"format": FORMAT, **about}
        if not path.exists():
            _put_once(path, said)
        known = _read(path)
        differ = [key for key in said if known.get(key) != said[key]]
        if differ:
            raise Conflict(
                f"{self.folder} has the results of another eval: {', '.join(differ)} differ.",
                remedy="Name another folder with --results, or repeat the command as it was.",
            )

    def about(self) -> dict[str, Any]:
        """Return what is measured. Raises Unreadable."""
        return _read(self.folder / _EVAL_FILE)

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
        trial = Trial(record.task, record.arm, record.number, record.limit_usd)
        if patch:
            self._path(trial.id, ".patch").write_text(patch, "utf-8", "surrogateescape")
        if output:
            self._path(trial.id, ".txt").write_text(output, "utf-8", "surrogateescape")
        errors = self._path(trial.id, ".error.json")
        said = {"format": FORMAT, **asdict(record)}
        if record.verdict == "error":
            errors.unlink(missing_ok=True)
            _put_once(errors, said)
            return
        _put_once(self._path(trial.id), said)
        errors.unlink(missing_ok=True)

    def records(self) -> list[TrialRecord]:
        """Return all records, by trial. Raises Unreadable."""
        return [_record(path) for path in sorted((self.folder / TRIALS).glob("*.json"))]

    def _path(self, trial_id: str, suffix: str = ".json") -> Path:
        return self.folder / TRIALS / f"{trial_id}{suffix}"


def _put_once(path: Path, said: dict[str, Any]) -> None:
    """Write a file whole, unless it is there already."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(said, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(beside, path)
    finally:
        with suppress(OSError):
            os.unlink(beside)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise NotFound(
            f"There is no {path.name} in {path.parent}.",
            remedy="Name a folder with results of `bullpen eval run`.",
        ) from None
    except (OSError, ValueError) as error:
        raise Unreadable(str(path), str(error), remedy="Name a folder with results.") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise Unreadable(
            str(path), "it has another format", remedy="Use the Bullpen that wrote it."
        )
    return found


def _record(path: Path) -> TrialRecord:
    said = _read(path)
    del said["format"]
    try:
        measures = Measures(**said.pop("measures"))
        return TrialRecord(**{**said, "put_back": tuple(said["put_back"])}, measures=measures)
    except (KeyError, TypeError) as error:
        raise Unreadable(
            str(path), str(error), remedy="Delete it: the trial is then run again."
        ) from None
