"""The benchmark of real agents runs from start to end. Its figures mean little at these counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

AGENTS = Path(__file__).parents[4] / "benchmarks" / "agents.py"

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(sys.platform != "linux", reason="it measures with /proc"),
]


def figures(folder: Path, *words: str) -> dict[str, Any]:
    """What one run wrote. It must leave nothing behind."""
    scratch, file = folder / "scratch", folder / "figures.json"
    command = [sys.executable, str(AGENTS), *words, "--json", str(file), "--dir", str(scratch)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert list(scratch.iterdir()) == []
    assert "| wake_p99_ms |" in done.stdout
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return found


def test_a_few_agents_with_processes_of_their_own_are_measured(tmp_path: Path) -> None:
    found = figures(tmp_path, "--agents", "3", "--seconds", "1", "--messages", "6")
    assert found["left_over"] == 0
    assert 0 < found["wake_p50_ms"] <= found["wake_p99_ms"] <= found["wake_max_ms"]
    assert found["idle_percent"] >= 0
    assert found["pss_mb"] > 1


def test_fifty_agents_in_one_process_work_and_stop_in_time(tmp_path: Path) -> None:
    """The system gives a process only so many notices and files: fifty agents get by with them."""
    words = ("--backend", "in-process", "--agents", "50", "--seconds", "2", "--messages", "20")
    found = figures(tmp_path, *words, "--pause", "0.2")
    assert found["agents"] == 50
    # To stop them all takes no longer than it took to start them.
    assert found["stop_all_s"] < found["spawn_s"]
