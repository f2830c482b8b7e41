"""Whoever removes a tree is killed with -9 at every step; nothing is lost, the next finishes it.

BULLPEN_CRASH_STEP=1 kills at every step, as in the full run; CI at a few of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.git.repositories import belongings, git, make_repository, only_these_settings

pytestmark = pytest.mark.no_loss

STRIDE = os.environ.get("BULLPEN_CRASH_STEP", "")
FEW = {"worktree": "110", "clone": "290"}
TESTS = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("kind", "then"), [("worktree", "again"), ("worktree", "resume"), ("clone", "again")]
)
def test_a_removal_that_is_killed_loses_nothing_and_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, then: str
) -> None:
    only_these_settings(monkeypatch, tmp_path)
    files = {"a.txt": "one\n", "src/b.py": "b\n", ".gitignore": "build/\n*.env\n"}
    project = make_repository(tmp_path / "project", files)
    before = belongings(project)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "chaos.workspace_fuzz.killing",
            str(project),
            kind,
            then,
            STRIDE or FEW[kind],
        ],
        cwd=TESTS,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=3_600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len([row for row in rows if row["killed"]]) >= 3
    assert not rows[-1]["killed"]
    assert [row for row in rows if row["lost"]] == []
    for tree in project.parent.glob("back-*"):
        if (tree / ".git").is_file():
            git(project, "worktree", "remove", "--force", str(tree))
    assert belongings(project) == before
    assert git(project, "for-each-ref", "refs/heads/bullpen") == ""
