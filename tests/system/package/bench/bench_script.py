"""Run a benchmark as a script, and read the rows that it wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parents[4] / "benchmarks"
COMMON = {"name", "unit", "figure", "n", "spread", "load", "goal", "verdict"}


class Report:
    """What one run of a benchmark printed and wrote. It must leave nothing behind."""

    def __init__(self, folder: Path, script: str, *words: str, codes: tuple[int, ...] = (0,)):
        scratch, file = folder / "scratch", folder / "figures.json"
        self.done = subprocess.run(
            [
                *(sys.executable, str(BENCHMARKS / f"{script}.py"), *words),
                *("--json", str(file), "--dir", str(scratch)),
            ],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert self.done.returncode in codes, self.done.stderr
        assert list(scratch.iterdir()) == []
        self.raw: dict[str, Any] = json.loads(file.read_text("utf-8"))
        self.rows: list[dict[str, Any]] = self.raw["rows"]
        for row in self.rows:
            assert row.keys() >= COMMON
            assert row["n"] >= 1
            assert row["spread"] is None or row["spread"][0] <= row["figure"] <= row["spread"][1]
            judged = row["verdict"] in {"PASS", "FAIL"} or "not judged: load" in row["verdict"]
            assert judged == (row["goal"] != "-"), row["name"]

    @property
    def goals(self) -> dict[str, str]:
        """The goals of the rows that have one, by their names."""
        return {row["name"]: row["goal"] for row in self.rows if row["goal"] != "-"}

    def figure(self, name: str) -> float:
        """The figure of the row whose name ends so."""
        (found,) = (row["figure"] for row in self.rows if row["name"].endswith(name))
        return float(found)
