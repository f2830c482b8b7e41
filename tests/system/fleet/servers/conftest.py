"""`bullpen server` in a home of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bullpen.agents.system import processes
from bullpen.doors.cli.main import app
from bullpen.errors import Unreadable
from bullpen.fleet.servers import cluster_survey, detached
from support.doors.json_shapes import fitting

Run = Callable[..., Result]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home; servers that a test left running in it are stopped."""
    for name in ("BULLPEN_STORE", "BULLPEN_CREDS", "BULLPEN_CA", "BULLPEN_NONCE", "BULLPEN_AGENT"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    monkeypatch.setenv("BULLPEN_HOME", str(home))
    yield home
    for record in tmp_path.rglob(detached.RECORD):
        known = None
        with suppress(Unreadable):
            known = detached.found(record.parent)
        for pid, start in known.processes.values() if known else ():
            if processes.is_alive(pid, start):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setitem(cluster_survey.survey.__kwdefaults__ or {}, "pause_s", 0.1)

    def invoke(*words: str) -> Result:
        return CliRunner().invoke(app, ["server", *words])

    return invoke


@pytest.fixture
def as_json(run: Run) -> Callable[..., Any]:
    def value(*words: str) -> Any:
        result = run(*words, "--json")
        assert result.exit_code == 0, result.output
        return fitting(result.stdout)

    return value
