"""`bullpen auth` in a test's process, with a home of its own; it never shows a secret."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bullpen.doors.cli.main import app

SEED = re.compile(r"S[AOU][A-Z2-7]{56}")

Run = Callable[..., Result]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("BULLPEN_TEAM", "BULLPEN_AGENT", "BULLPEN_STORE", "BULLPEN_CA", "BULLPEN_NONCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BULLPEN_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def run(home: Path) -> Run:
    def invoke(*words: str) -> Result:
        result = CliRunner().invoke(app, ["auth", *words])
        assert not SEED.search(result.output), words
        return result

    return invoke


@pytest.fixture
def ok(run: Run) -> Callable[..., str]:
    def said(*words: str) -> str:
        result = run(*words)
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        return result.stdout

    return said
