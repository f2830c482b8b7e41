"""The example of a night in CI runs as it is, with scripted agents in place of a model."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.runs.unattended_team import WORKS, Night, git_environment

EXAMPLE = Path(__file__).parents[2] / "examples" / "night-in-ci"


@pytest.fixture
def night(tmp_path: Path) -> Night:
    """A repository with the files of the example, and a script in place of a model."""
    night = Night(tmp_path)
    night.make_repository()
    for name in ("BACKLOG.md", "night.sh"):
        shutil.copy(EXAMPLE / name, night.project)
    text = (EXAMPLE / "TEAM.toml").read_text("utf-8")
    # No model, two members less, and a gate that needs no python on the path.
    text = text.replace("count = 3", 'count = 1\ndriver = "scripted"\nscript = "script.toml"')
    text = text.replace(
        'mode = "acceptEdits"', 'mode = "bypassPermissions"\nbackend = "in-process"'
    )
    text = text.replace('"python -m unittest"', '"test ! -e broken"')
    (night.project / "TEAM.toml").write_text(text, "utf-8")
    # The second night has a task 1 again. Work that changes nothing is not ticked.
    script = WORKS.format(name="worker").replace("> done-", ">> done-")
    (night.project / "script.toml").write_text(script, "utf-8")
    night.git("add", ".")
    night.git("commit", "--quiet", "--message=the night's work")
    return night


def ran(tmp_path: Path, project: Path) -> subprocess.CompletedProcess[str]:
    """Run the script of the job on a new machine."""
    env = {
        **{key: value for key, value in os.environ.items() if not key.startswith("BULLPEN_")},
        **git_environment(),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "BULLPEN_HOME": str(project.parent / "home"),
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }
    return subprocess.run(
        ["bash", "night.sh"], cwd=project, env=env, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.pages
def test_a_night_in_ci_ends_with_merged_commits_a_report_and_the_code(
    tmp_path: Path, night: Night
) -> None:
    done = ran(tmp_path, night.project)
    assert done.returncode == 0, done.stdout + done.stderr
    told = night.git("log", "--format=%(trailers:key=Bullpen-Task,valueonly,separator=)", "night")
    assert sorted(told.split()) == ["1", "2", "3"]
    report = (tmp_path / "summary.md").read_text("utf-8")
    assert "- **tasks**: 3 merged" in report
    assert len(re.findall(r"^\| [0-9a-f]{12} \|", report, re.MULTILINE)) == 3
    notices = (tmp_path / "notices.jsonl").read_text("utf-8")
    assert notices.count('"happening":"merged"') == 3
    lines = (tmp_path / "night.jsonl").read_text("utf-8").splitlines()
    assert '"kind":"outcome"' in lines[-1]


@pytest.mark.pages
def test_the_next_night_on_a_new_machine_goes_on_from_the_last_one(
    tmp_path: Path, night: Night
) -> None:
    done = ran(tmp_path, night.project)
    assert done.returncode == 0, done.stdout + done.stderr
    before = night.git("rev-parse", "night").strip()
    backlog = night.project / "BACKLOG.md"
    with backlog.open("a", encoding="utf-8") as file:
        file.write("- [ ] Greet the night\n")
    night.git("commit", "--quiet", "--all", "--message=by day")
    by_day = night.git("rev-parse", "HEAD").strip()
    project = tmp_path / "machine" / "project"
    night.git("clone", "--quiet", str(night.project), str(project))
    done = ran(tmp_path, project)
    assert done.returncode == 0, done.stdout + done.stderr
    for commit in (before, by_day):
        night.git("-C", str(project), "merge-base", "--is-ancestor", commit, "night")
    # Only what is new is done: the boxes of the first night are ticked, and stay so.
    assert "- **tasks**: 1 " in (tmp_path / "summary.md").read_text("utf-8")
    boxes = night.git("-C", str(project), "show", "night:BACKLOG.md")
    assert (boxes.count("- [x]"), boxes.count("- [ ]")) == (4, 0)


def test_the_workflow_runs_what_is_tested() -> None:
    workflow = (EXAMPLE / "night.yml").read_text("utf-8")
    assert "bash night.sh" in workflow
    assert "stdin" not in workflow
    assert "--force" not in workflow
