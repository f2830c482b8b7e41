"""The demo is over within the minute that its page promises."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

import pytest

from system.runs.demo.test_demo_plays import Panes, play

PROMISED_S = 60


@pytest.mark.parametrize("backend", ["in-process", "tmux"])
async def test_the_demo_takes_less_than_a_minute(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    panes = Panes(f"bullpen-timing-{secrets.token_hex(4)}")
    monkeypatch.setenv("BULLPEN_TMUX_SOCKET", panes.socket)
    began = time.monotonic()
    try:
        outcome, _ = await play(tmp_path, backend)
        took_s = time.monotonic() - began
    finally:
        panes.end()
    assert took_s < PROMISED_S
    assert outcome.status == "done"
