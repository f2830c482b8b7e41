"""What changed since a team began is counted from the repository itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bullpen.workspace.git.changed_since import changed_since

BEGAN_S = 1_900_000_000


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    git(tmp_path, "init", "-qb", "main")
    (tmp_path / "parse.py").write_text("one\ntwo\n")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "mine.md").write_text("before\n")
    os.utime(tmp_path / "mine.md", (BEGAN_S - 5, BEGAN_S - 5))
    commit(tmp_path, BEGAN_S - 10, "parse.py", ".gitignore")
    return tmp_path


def git(folder: Path, *words: str, at_s: int = BEGAN_S) -> None:
    who = {
        f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    env = {**os.environ, **who, "GIT_COMMITTER_DATE": f"{at_s} +0000"}
    subprocess.run(["git", "-C", folder, *words], check=True, env=env, timeout=60)


def commit(folder: Path, at_s: int, *names: str) -> None:
    git(folder, "add", *names)
    git(folder, "commit", "-qm", "x", at_s=at_s)


def words(folder: Path, branch: str | None = None) -> str:
    found = changed_since(folder, BEGAN_S * 1000, branch)
    assert found is not None
    return found.words


def test_nothing_changed_is_no_words(project: Path) -> None:
    assert words(project) == ""


def test_commits_since_are_counted_with_their_lines(project: Path) -> None:
    (project / "parse.py").write_text("one\nTWO\n")
    commit(project, BEGAN_S + 10, "parse.py")
    assert words(project) == words(project, "main") == "parse.py +1 -1; 1 commit"


def test_files_that_were_written_since_count_although_nobody_committed_them(project: Path) -> None:
    later = BEGAN_S + 20
    for name in ("parse.py", "new.md", "ignored.log"):
        (project / name).write_text("one\n")
        os.utime(project / name, (later, later))
    assert words(project) == "parse.py +0 -1, new.md (new); 2 files not committed"
    assert words(project, "main") == ""


def test_many_files_are_counted_and_not_listed(project: Path) -> None:
    for number in range(5):
        (project / f"f{number}").write_text("x\n")
    commit(project, BEGAN_S + 10, ".")
    assert words(project).endswith("and 3 more files; 1 commit")


def test_a_repository_that_is_younger_says_nothing(project: Path) -> None:
    assert changed_since(project, (BEGAN_S - 100) * 1000) is None
