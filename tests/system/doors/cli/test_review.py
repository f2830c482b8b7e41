"""`bullpen review`: what it prints, and how it exits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.agents.reviewing import ADD, FIXED, reviewer, verdict
from support.git.repositories import git, make_repository, only_these_settings


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    only_these_settings(monkeypatch, tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BULLPEN_HOME", str(tmp_path / "home"))
    return make_repository(tmp_path / "project", {"sum.py": "def add(a, b): ...\n"})


def review(project: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bullpen", "review", *words],
        cwd=project,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def scripted(folder: Path, *turns: str | list[str]) -> list[str]:
    file = folder / "review.toml"
    reviewer(file, *turns)
    return ["--by", "scripted", "--script", str(file)]


def test_it_prints_the_verdict_and_the_comments(project: Path, tmp_path: Path) -> None:
    comment = {"file": "sum.py", "line": 2, "text": "This subtracts."}
    (project / "sum.py").write_text(ADD)
    done = review(project, *scripted(tmp_path, verdict("change", "It is wrong", comment)))
    assert done.returncode == 1, done.stderr
    first, *rest = done.stdout.splitlines()
    assert first.startswith("scripted asks for changes to ")
    assert rest == ["  It is wrong", "  - sum.py:2: This subtracts."]
    assert not (tmp_path / "home").exists()
    assert git(project, "status", "--short").strip() == "M sum.py"


def test_json_has_the_verdict_the_commits_and_the_cost(project: Path, tmp_path: Path) -> None:
    start = git(project, "rev-parse", "HEAD")
    (project / "sum.py").write_text(FIXED)
    git(project, "commit", "-qam", "Add")
    words = scripted(tmp_path, verdict("approve", "Fine"))
    done = review(project, "HEAD", *words, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["schema"], said["verdict"], said["summary"]) == (
        "bullpen/review/1",
        "approve",
        "Fine",
    )
    assert (said["base"], said["commit"]) == (start, git(project, "rev-parse", "HEAD"))
    assert said["usage"]["costUsd"] == 0.25
    again = review(project, f"{start}..HEAD", *words, "--json")
    assert json.loads(again.stdout)["base"] == start


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "Nothing is left to review"),
        (["nowhere..HEAD"], 2, "There is no commit 'nowhere'"),
        (["--output=/tmp/x..HEAD"], 2, ""),
        (["--by", "nobody"], 2, "nobody"),
    ],
)
def test_what_cannot_be_reviewed_says_why(
    project: Path, tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    given = words if "--by" in words else [*words, *scripted(tmp_path, verdict("approve"))]
    done = review(project, *given)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stderr


def test_no_verdict_is_never_an_approval(project: Path, tmp_path: Path) -> None:
    (project / "sum.py").write_text(FIXED)
    done = review(project, *scripted(tmp_path, ["{exit = 3}"]))
    assert done.returncode == 5, done.stdout + done.stderr
    assert "could not be reviewed" in done.stderr
    assert done.stdout == ""
