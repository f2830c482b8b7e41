"""Terminals are closed under runs at random moments; each run ends, and another one continues it.

The night closes a hundred. More of them, and the same ones again as in a failure:

    BULLPEN_NIGHTLY=1 BULLPEN_CLOSINGS=500 uv run pytest tests/chaos/agents/test_closings.py
    BULLPEN_NIGHTLY=1 BULLPEN_CHAOS_SEED=1234 uv run pytest tests/chaos/agents/test_closings.py
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest

from support.doors.closing import (
    COMMANDS,
    MEMBERS,
    PtyTerminal,
    Stage,
    TmuxTerminal,
    is_gone,
    wait_for,
)
from support.offices import needs_tmux

CLOSINGS = int(os.environ.get("BULLPEN_CLOSINGS") or 100)
SEED = int(os.environ.get("BULLPEN_CHAOS_SEED") or 3)
LATEST_S = 6.0
"""After this, a run waits for an answer, on a machine that is not busy."""

pytestmark = [
    pytest.mark.nightly,
    needs_tmux,
    pytest.mark.skipif(sys.platform != "linux", reason="it needs /proc"),
]


@pytest.mark.parametrize("number", range(CLOSINGS))
def test_whenever_a_terminal_is_closed_its_run_ends_and_another_continues_it(
    tmp_path: Path, number: int
) -> None:
    chance = random.Random(f"{SEED}-{number}")
    command = chance.choice(list(COMMANDS))
    way = chance.choice(["window", "connection", "signals"])
    stage = Stage(tmp_path)
    folder = Path(tempfile.mkdtemp(prefix="bp-", dir="/tmp"))
    terminal = PtyTerminal() if way == "connection" else TmuxTerminal(folder)
    try:
        pid = stage.start(terminal, *COMMANDS[command])
        time.sleep(chance.uniform(0.0, LATEST_S))
        if way == "signals":
            for each in (signal.SIGHUP, signal.SIGCONT):
                os.kill(pid, each)
        else:
            terminal.hang_up()
        wait_for(lambda: is_gone(pid))
    finally:
        terminal.close()
        shutil.rmtree(folder)
    stage.resumes(*COMMANDS[command])
    stage.ended_in_order(MEMBERS[command])
