"""Importing the package does nothing, and nothing in it names the place it was made in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_importing_does_nothing_and_is_quick() -> None:
    """It imports itself and at most ten modules of the standard library."""
    program = (
        "import sys; before = set(sys.modules); import bullpen;"
        "print(*sorted(set(sys.modules) - before))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    others = [name for name in found if name != "bullpen"]
    assert len(others) <= 10
    assert {name.partition(".")[0] for name in others} <= sys.stdlib_module_names


def test_nothing_names_the_place_it_was_made_in() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    for name in tracked:
        text = (ROOT / name).read_bytes()
        assert b"/home/" not in text.replace(b"/home/user", b"") or name.startswith("tests/"), name
