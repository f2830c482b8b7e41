"""The benchmark of trees runs from start to end. Its figures mean nothing at these counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

WORKTREES = Path(__file__).parents[4] / "benchmarks" / "worktrees.py"


def test_a_few_trees_are_measured_beside_bare_git(tmp_path: Path) -> None:
    scratch, file = tmp_path / "scratch", tmp_path / "figures.json"
    words = ["--files", "60", "--trees", "2", "--dir", str(scratch), "--json", str(file)]
    done = subprocess.run(
        [sys.executable, str(WORKTREES), *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text("utf-8"))
    assert [len(times) for times in found["seconds"].values()] == [2, 2, 2]
    assert found["goals"]["prepare"]["target"] == "<= 1.3 x git worktree add"
    assert "| plan and prepare |" in done.stdout
    assert list(scratch.iterdir()) == []
