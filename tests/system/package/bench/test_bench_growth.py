"""The benchmark of growth runs from start to end, on the smallest team."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

GROWTH = Path(__file__).parents[4] / "benchmarks" / "growth.py"


def test_every_row_of_the_smallest_team_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    words = ["--only", "T100", "--repeats", "2", "--json", str(file), "--dir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, str(GROWTH), *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text("utf-8"))["columns"]
    assert list(found) == ["T100"]
    assert len(found["T100"]) == 11
    assert all(0 < low <= middle <= high for low, middle, high in found["T100"].values())
    assert "| claim_next |" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]
