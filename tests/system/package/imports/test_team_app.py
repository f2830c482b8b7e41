"""Settings, the choice of a team, and the doctor, on real files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import bullpen


def test_importing_the_package_imports_nothing_else_of_it() -> None:
    script = (
        "import sys; before = set(sys.modules); import bullpen;"
        "new = set(sys.modules) - before;"
        "print(sorted(name for name in new if name.startswith(('bullpen', 'typing', 'pydantic'))))"
    )
    answer = subprocess.run(
        [sys.executable, "-S", "-c", script],
        env={"PYTHONPATH": str(Path(bullpen.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert answer.stdout.strip() == "['bullpen']"


def test_teams_in_files_are_read_without_pydantic() -> None:
    script = (
        "import sys, bullpen.protocol.presence, bullpen.store.files.store, bullpen.team.team;"
        "print([name for name in ('pydantic', 'pydantic_core', 'asyncio') if name in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert answer.stdout.strip() == "[]"


def test_whoever_starts_agents_loads_nothing_that_judges_calls_or_removes_worktrees() -> None:
    script = (
        "import sys, bullpen.app.app, bullpen.doors.cli.agents.agents;"
        "never = ('pydantic', 'yaml', 'tarfile', 'bullpen.workspace.merge_queue',"
        " 'bullpen.workspace.removal', 'bullpen.agents.permissions.decide');"
        "print([name for name in never if name in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert answer.stdout.strip() == "[]"
