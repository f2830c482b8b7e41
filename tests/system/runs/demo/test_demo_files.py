"""The scripts can be played, and the pictures can be shown anywhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
EXAMPLE = ROOT / "examples" / "scripted-team.toml"


def test_the_example_runs_as_it_says(tmp_path: Path) -> None:
    """It is started with the very command that its first lines show."""
    found = re.search(r"^#\s+bullpen (run .*)$", EXAMPLE.read_text("utf-8"), re.MULTILINE)
    assert found is not None
    (tmp_path / "examples").symlink_to(EXAMPLE.parent)
    done = subprocess.run(
        f'"$PYTHON" -m bullpen {found[1]}',
        shell=True,
        env={**os.environ, "PYTHON": sys.executable, "BULLPEN_HOME": str(tmp_path / "home")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "greeting.txt").read_text("utf-8") == "Hello world\n"
    assert (tmp_path / "languages.txt").read_text("utf-8").split() == [
        "Deutsch",
        "English",
        "Suomi",
    ]
