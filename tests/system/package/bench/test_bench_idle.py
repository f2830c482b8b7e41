"""The benchmark of waiting runs, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

IDLE = Path(__file__).parents[4] / "benchmarks" / "idle.py"


def test_the_benchmark_of_waiting_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, IDLE, "--agents=2", "--seconds=0.2", "--messages=3", "--dir", tmp_path],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "send to read, p50" in done.stdout
    assert os.listdir(tmp_path) == []
