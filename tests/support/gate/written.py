"""What the gate reads of a run: what failed, whether it has one try, and how long tests took."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

WRITTEN = "BULLPEN_GATE_WRITTEN"
"""The variable that names the file."""

NO_LOSS = "no_loss"
"""The marker of what proves that nothing is lost: a second try would hide one loss in a hundred."""


class Writer:
    """Collects the reports of a run, of all workers, and writes them at its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._failed: dict[str, bool] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take down one part of a test."""
        self._seconds[report.nodeid] += report.duration
        if report.failed:
            self._failed[report.nodeid] = NO_LOSS in report.keywords

    def pytest_sessionfinish(self) -> None:
        """Write it all."""
        written = {"seconds": self._seconds, "failed": self._failed}
        self._path.write_text(json.dumps(written), "utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Write where the gate asks for it; its workers report to the process that has asked."""
    path = os.environ.get(WRITTEN)
    if path and not hasattr(config, "workerinput"):
        # Tests that play a pytest of their own must not write there.
        del os.environ[WRITTEN]
        config.pluginmanager.register(Writer(Path(path)))
