"""`bullpen cost`, `bullpen team limits` and `bullpen task budget`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.doors.cost_account import account


@pytest.mark.parametrize(
    "words",
    [
        ["team", "limits", "--usd", "100"],
        ["team", "limits", "--processes", "900"],
        ["team", "limits", "--agent", "ann", "--tokens", "9"],
        ["task", "budget", "1", "--usd", "9"],
    ],
)
def test_an_agent_cannot_raise_what_may_be_used(home: Path, words: list[str]) -> None:
    """R-5.3: not from its shell either."""
    account(home, limits={"usd": 1.0})
    env = {
        **os.environ,
        "BULLPEN_NONCE": "n-ann",
        "BULLPEN_AGENT": "ann",
        "BULLPEN_TEAM": "alpha",
    }
    done = subprocess.run(
        [sys.executable, "-m", "bullpen", *words, "--json"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["reason"] == "not_a_person"
