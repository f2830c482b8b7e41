"""The demo is over within the minute that its page promises."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from system.runs.demo.test_demo_plays import play

PROMISED_S = 60


@pytest.mark.parametrize("backend", ["in-process", "tmux"])
async def test_the_demo_takes_less_than_a_minute(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULLPEN_TMUX_SOCKET", f"bullpen-timing-{tmp_path.name[-12:]}")
    began = time.monotonic()
    outcome, _ = await play(tmp_path, backend)
    assert time.monotonic() - began < PROMISED_S
    assert outcome.status == "done"
