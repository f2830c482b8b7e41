"""`bullpen init`: each template is right for what is there, and leads to a team that works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bullpen.doors.cli.main import app
from bullpen.errors import Invalid
from bullpen.runs.teamfile.project import Project, look_at
from bullpen.runs.teamfile.read import read_team_file
from bullpen.runs.teamfile.templates import (
    IN_TREES,
    TEMPLATES,
    TemplateChoice,
    files_of,
)

# A whole run of each template takes as long as all other tests here together.
PLAYED = tuple(TEMPLATES) if os.environ.get("BULLPEN_TEMPLATES") == "all" else ("backlog",)

LEFT = {"review": "REVIEW.md", "debug": "VERDICT.md", "backlog": "notes", "specialists": "notes"}


def environment(tmp_path: Path) -> dict[str, str]:
    user = tmp_path / "user"
    user.mkdir(exist_ok=True)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(user),
        "BULLPEN_HOME": str(tmp_path / "home"),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b.invalid",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b.invalid",
    }


def run(tmp_path: Path, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=cwd,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def bullpen(tmp_path: Path, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(tmp_path, cwd, sys.executable, "-m", "bullpen", *words)


Init = Callable[..., Result]


@pytest.fixture
def init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Init:
    """Run `bullpen init` in this process."""
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)

    def run_in(folder: Path, *words: str) -> Result:
        monkeypatch.chdir(folder)
        return CliRunner().invoke(app, ["init", *words])

    return run_in


def git(tmp_path: Path, cwd: Path, *words: str) -> str:
    done = run(tmp_path, cwd, "git", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small repository with tests."""
    folder = tmp_path / "my project"
    folder.mkdir()
    (folder / "Makefile").write_text("test:\n\ttest ! -e broken\n", encoding="utf-8")
    git(tmp_path, folder, "init", "--quiet", "--initial-branch=trunk")
    git(tmp_path, folder, "add", ".")
    git(tmp_path, folder, "commit", "--quiet", "--message=Begin")
    return folder


def test_a_project_has_its_branch_and_the_command_of_its_tests(project: Path) -> None:
    assert look_at(project) == Project(project, None, "trunk", "make test")


def test_a_review_compares_a_branch_with_the_main_branch_and_not_with_itself(
    tmp_path: Path, project: Path
) -> None:
    alone = files_of(TemplateChoice("review", "scripted"), look_at(project))["TEAM.toml"]
    assert "Review the last commit (git show HEAD)." in alone
    git(tmp_path, project, "switch", "--quiet", "--create", "feature")
    made = files_of(TemplateChoice("review", "scripted"), look_at(project))["TEAM.toml"]
    assert "(git diff trunk...HEAD; if that is empty, the last commit)." in made
    # A clone knows the main branch of where it came from.
    git(tmp_path, tmp_path, "clone", "--quiet", "--branch=trunk", str(project), "clone")
    git(tmp_path, tmp_path / "clone", "remote", "set-head", "origin", "trunk")
    assert look_at(tmp_path / "clone").base == "origin/trunk"


@pytest.mark.parametrize("template", PLAYED)
def test_a_template_with_a_script_runs_to_its_end(
    tmp_path: Path, project: Path, template: str
) -> None:
    made = bullpen(tmp_path, project, "init", "--template", template, "--driver", "scripted")
    assert made.returncode == 0, made.stderr
    try:
        done = bullpen(tmp_path, project, "up", "TEAM.toml", "--timeout", "120")
        assert done.returncode == 0, done.stdout + done.stderr
        assert (project / LEFT[template]).exists()
        if template in IN_TREES:
            tracked = git(tmp_path, project, "ls-files", "notes").splitlines()
            assert len(tracked) == 3, "every task is merged into the branch"
            again = bullpen(tmp_path, project, "up", "TEAM.toml", "--timeout", "120")
            assert again.returncode == 0, again.stdout + again.stderr
            assert git(tmp_path, project, "ls-files", "notes").splitlines() == tracked
    finally:
        bullpen(tmp_path, project, "down", "TEAM.toml")


def test_nothing_is_overwritten_unless_told_to(tmp_path: Path, project: Path, init: Init) -> None:
    (project / "BACKLOG.md").write_text("mine", encoding="utf-8")
    elsewhere = tmp_path / "precious"
    elsewhere.write_text("precious", encoding="utf-8")
    (project / "TEAM.toml").symlink_to(elsewhere)
    refused = init(project, "--template", "backlog", "--json")
    told = json.loads(refused.stdout)["error"]
    assert (refused.exit_code, told["reason"]) == (2, "file_exists")
    assert "BACKLOG.md, TEAM.toml" in told["message"]
    assert (project / "BACKLOG.md").read_text(encoding="utf-8") == "mine"
    assert not (project / ".bullpen").exists(), "all files are written or none"

    forced = init(project, "--template", "backlog", "--force")
    assert forced.exit_code == 0, forced.output
    assert "git add" in forced.stdout
    assert "bullpen up TEAM.toml --dry-run" in forced.stdout
    assert elsewhere.read_text(encoding="utf-8") == "precious", "a link is not followed"
    assert read_team_file(project / "TEAM.toml").backlog[0].markdown == "BACKLOG.md"


def test_a_folder_that_is_no_repository_is_told_what_to_do(tmp_path: Path, init: Init) -> None:
    made = init(tmp_path, "new", "--template", "backlog")
    assert made.exit_code == 0, made.output
    assert "cd new && git init -b main && git add . && git commit" in made.stdout
    assert "No test command was found" in made.stdout
    assert read_team_file(tmp_path / "new" / "TEAM.toml").merge is not None
    assert init(tmp_path, "a/b", "--template", "debug").exit_code == 3


def test_what_there_is_not_is_refused_with_a_guess(tmp_path: Path, init: Init) -> None:
    project = look_at(tmp_path)
    with pytest.raises(Invalid, match=r"no template 'reviw' .did you mean 'review'"):
        files_of(TemplateChoice("reviw"), project)
    with pytest.raises(Invalid, match="for the driver 'acp'"):
        files_of(TemplateChoice("review", "acp"), project)
    listed = init(tmp_path, "--list")
    assert all(name in listed.stdout for name in TEMPLATES)
    assert init(tmp_path).exit_code == 2
