"""What the trials of an eval may still cost: each attempt notes its limit before it begins.

Processes that share the folder take turns with a lock, so that together they start no more than the
money allows. An attempt that was killed counts with its limit until somebody says what it cost.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bullpen.errors import Unavailable
from bullpen.runs.eval.plan import Attempt, Trial, affordable
from bullpen.runs.eval.records.files import FORMAT, checked, listed, put_once, put_over, read_json

_LOCK = ".lock"
_LOCK_S = 60.0
"""The lock is held for as long as some small files are read and one is written."""


class Attempts:
    """The attempts in one folder of results. Everything blocks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> list[Attempt]:
        """Return all attempts. Raises Unreadable."""
        return [checked(path, Attempt, read_json(path)) for path in listed(self.folder)]

    def begin(self, trial: Trial, money: float | None, *, host: str, began: str) -> Attempt | None:
        """Note an attempt at a trial; None if the money does not cover it.

        Raises Unavailable if another process holds the lock for too long.
        """
        with self._locked():
            known = self.all()
            if not affordable(trial, known, money):
                return None
            number = 1 + max((each.number for each in known if each.trial == trial.id), default=0)
            attempt = Attempt(trial.id, number, trial.usd, None, host, began)
            put_once(self._path(attempt), _said(attempt))
            return attempt

    def killed(self, trial: Trial) -> list[Attempt]:
        """Return the attempts that no process has ended. Call it only while you have the trial."""
        return [each for each in self.all() if each.trial == trial.id and each.usd is None]

    def end(self, attempt: Attempt, usd: float) -> None:
        """Note what an attempt cost."""
        put_over(self._path(attempt), _said(replace(attempt, usd=usd)))

    def _path(self, attempt: Attempt) -> Path:
        return self.folder / f"{attempt.trial}--{attempt.number}.json"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            until = time.monotonic() + _LOCK_S
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise Unavailable(
                            f"{self.folder / _LOCK} was locked for {_LOCK_S:g} s.",
                            remedy="Check that no other eval on this folder hangs; then try again.",
                        ) from None
                time.sleep(0.05)
            yield
        finally:
            os.close(descriptor)


def _said(attempt: Attempt) -> dict[str, object]:
    return {"format": FORMAT, **{name: getattr(attempt, name) for name in attempt.__slots__}}
