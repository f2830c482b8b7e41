"""The benchmark of keys over NATS runs to its end. Its figures mean nothing at these counts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

NATS_KEYS = Path(__file__).parents[4] / "benchmarks" / "nats_keys.py"

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(sys.platform != "linux", reason="it measures with /proc"),
]


def test_every_key_and_call_is_measured_beside_the_other_commit() -> None:
    same = str(NATS_KEYS.parents[1] / "src")
    done = subprocess.run(
        [sys.executable, str(NATS_KEYS), "--rounds", "1", "--seconds", "0.05", "--before", same],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if " key, " in line]
    assert {row.split()[0] for row in rows} == {"unbound", "bound", "admin"}
    assert done.stdout.count("  ratio ") == len(rows) == 18
