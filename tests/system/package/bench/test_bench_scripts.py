"""Every benchmark runs from start to end at a small size. Its figures mean nothing then."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from .bench_script import BENCHMARKS, Report

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="they measure with Linux clocks")
FEW = "--seconds 1 --messages 6 --pause 0.1"


@dataclass(frozen=True)
class Bench:
    """A script, the words that make it small, and what its rows must have."""

    words: str
    rows: int
    goals: dict[str, str] = field(default_factory=dict)
    # Above a target it ends with 1; a failure shows in its figures.
    codes: tuple[int, ...] = (0,)


QUICK = {
    "growth": Bench("--only T100 --repeats 2", 12),
    "commands": Bench(
        "--rounds 1 --tasks 20",
        1,
        {"`bullpen --help`: wall time": "< 90 ms", "`bullpen ps`: wall time": "< 250 ms"},
    ),
    "tokens": Bench(
        "--turns 3",
        1,
        {"30 members, 100 tasks: the digest when nothing changed": "< 100 tokens"},
    ),
    "idle": Bench("--agents=2 --seconds=0.2 --messages=3", 1),
    "view": Bench("--agents 5 --tasks 50 --messages 100", 5, codes=(0, 1)),
    "worktrees": Bench("--files 60 --trees 2", 2),
    "merge_queue": Bench("--files 60 --merges 2 --batch 2", 1, codes=(0, 1)),
    "git_status": Bench("--files 60 --rounds 2", 1, codes=(0, 1)),
}
SLOW = {
    "screens": Bench(
        "--rounds 1 --only small", 3, {"`bullpen tui`: first picture, small": "< 0.7 s"}
    ),
    "agents": Bench(f"--driver native --agents 3 {FEW}", 1, {"3 native agents: left over": "0"}),
    "native_spawn": Bench("--rounds 1", 36, {"native agent, Anthropic, warm: ready": "< 1 s"}),
}


def checked(folder: Path, script: str, bench: Bench) -> Report:
    found = Report(folder, script, *bench.words.split(), codes=bench.codes)
    assert len(found.rows) >= bench.rows
    assert found.goals.items() >= bench.goals.items(), found.goals
    return found


@pytest.mark.parametrize("script", QUICK)
def test_a_benchmark_runs_from_start_to_end(tmp_path: Path, script: str) -> None:
    checked(tmp_path, script, QUICK[script])


@pytest.mark.nightly
@pytest.mark.parametrize("script", SLOW)
def test_a_slow_benchmark_runs_from_start_to_end(tmp_path: Path, script: str) -> None:
    found = checked(tmp_path, script, SLOW[script])
    if script == "agents":
        assert found.figure("left over") == 0


@pytest.mark.nightly
def test_the_fleet_is_measured_and_planned_from_its_figures(tmp_path: Path) -> None:
    report = Report(tmp_path, "fleet", "--smoke")
    assert {row["row"] for row in report.rows} == set("abcdef")
    (faults,) = [row for row in report.rows if row["goal"] == "0"]
    assert faults["figure"] == 0
    file = tmp_path / "again.json"
    file.write_text(json.dumps(report.raw), "utf-8")
    command = [sys.executable, str(BENCHMARKS / "fleet_plan.py"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout in report.done.stdout
    assert "not measured" not in done.stdout


@pytest.mark.nightly
def test_every_key_and_call_over_nats_is_measured_beside_the_other_commit() -> None:
    words = ["--rounds", "1", "--seconds", "0.05", "--before", str(BENCHMARKS.parent / "src")]
    command = [sys.executable, str(BENCHMARKS / "nats_keys.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    rows = [line for line in done.stdout.splitlines() if " key, " in line]
    assert {row.split()[0] for row in rows} == {"unbound", "bound", "admin"}
    assert done.stdout.count("  ratio ") == len(rows) == 18
