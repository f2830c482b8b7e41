"""`bullpen init`: what it finds, what options say, and that an interrupted one leaves nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from typer.testing import Result

from bullpen.app.settings import settings_from
from bullpen.runs.dry_run import dry_run
from bullpen.runs.teamfile import templates
from bullpen.runs.teamfile.dry_run.sizes import SIZES
from bullpen.runs.teamfile.prerequisites import look_around, prerequisites_json
from bullpen.runs.teamfile.project import look_at
from bullpen.runs.teamfile.read import TeamFile, read_team_file
from bullpen.runs.teamfile.templates import TEMPLATES, TemplateChoice, files_of, write
from bullpen.runs.up import StartRequest

Run = Callable[..., Result]
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with tests, where no key is set and no agent program is on the path."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "Makefile").write_text("test:\n\ttrue\n", encoding="utf-8")
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir(folder)
    return folder


def program(folder: Path, name: str) -> None:
    """Put a program on the path."""
    path = folder / name
    path.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    path.chmod(0o755)


def made(folder: Path) -> TeamFile:
    return read_team_file(folder / "TEAM.toml")


def problems(tmp_path: Path, folder: Path) -> list[str]:
    """What `bullpen up --dry-run` finds in the way."""
    request = StartRequest(made(folder), str(folder))
    return anyio.run(dry_run, settings_from({}, home=tmp_path / "h"), request).problems


def test_json_alone_tells_what_is_there_and_writes_nothing(
    project: Path, as_json: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    found = as_json("init")
    assert found["keys"] == {"ANTHROPIC_API_KEY": False, "OPENAI_API_KEY": True}
    assert (found["tests"], found["repository"], found["best"]) == ("make test", False, "native")
    assert "sk-very-secret" not in json.dumps(found)
    assert os.listdir(project) == ["Makefile"]


def test_a_driver_can_be_used_when_all_that_it_needs_is_there(project: Path) -> None:
    folder = project.parent / "bin"
    folder.mkdir()
    path = f"{folder}:/usr/bin:/bin"

    def usable(**more: str) -> list[str]:
        return [each.name for each in look_around(project, {"PATH": path, **more}).usable]

    assert usable() == ["scripted"]
    assert usable(ANTHROPIC_API_KEY="") == ["scripted"], "an empty key is none"
    assert usable(ANTHROPIC_API_KEY="x") == ["native", "scripted"]
    program(folder, "goose")
    assert usable() == ["goose", "scripted"]
    bare = look_around(project, {"PATH": "/usr/bin:/bin"})
    assert bare.best == "scripted"
    assert "ANTHROPIC_API_KEY" in (bare.lacks("native") or "")
    assert "npm install" in (bare.lacks("codex") or "")
    assert bare.lacks("scripted") is None


def test_a_program_that_is_missing_or_silent_has_no_version(project: Path) -> None:
    assert look_around(project, {"PATH": "/nowhere"}).git is None
    program(project, "git")
    assert look_around(project, {"PATH": str(project)}).git is None
    assert look_around(project, dict(os.environ)).git


def test_what_is_not_committed_is_counted(project: Path, spawn: Callable[..., Any]) -> None:
    assert prerequisites_json(look_around(project, dict(os.environ)))["uncommitted"] is None
    config = ("-c", "user.name=a", "-c", "user.email=a@b.invalid")
    for words in (("init", "-q"), ("add", "."), (*config, "commit", "-qm", "Begin")):
        assert os.spawnvp(os.P_WAIT, "git", ["git", *words]) == 0
    assert look_around(project, dict(os.environ)).uncommitted == 0
    (project / "new").touch()
    assert look_around(project, dict(os.environ)).uncommitted == 1


@pytest.mark.parametrize("template", SIZES)
def test_every_size_of_a_template_can_be_started(
    tmp_path: Path, project: Path, template: str
) -> None:
    config = ("-c", "user.name=a", "-c", "user.email=a@b.invalid")
    for words in (("init", "-q"), ("add", "."), (*config, "commit", "-qm", "Begin")):
        assert os.spawnvp(os.P_WAIT, "git", ["git", *words]) == 0
    size = SIZES[template]
    for members in {size.least, size.usual, size.most}:
        files = files_of(TemplateChoice(template, "scripted", members=members), look_at(project))
        write(project, files, force=True)
        assert len(made(project).teammates) == members
        assert problems(tmp_path, project) == []


def test_options_end_up_in_the_file(project: Path, run: Run) -> None:
    words = ("--template", "backlog", "--members", "5", "--tests", "make 'all tests'")
    done = run("init", *words, "--budget-usd", "7.5", "--budget-turns", "40")
    assert done.exit_code == 0, done.output
    file = made(project)
    assert [member.name for member in file.teammates] == [f"worker-{n}" for n in range(1, 6)]
    assert file.merge is not None
    assert file.merge.gate == ["make 'all tests'"]
    assert (file.budget.usd, file.budget.turns) == (7.5, 40)
    assert "is not ready" in done.stdout, "no key is set"
    assert "--driver scripted" in done.stdout
    assert run("init", "--template", "backlog", "--tests", "-", "--force").exit_code == 0
    file = made(project)
    assert file.merge is not None
    assert file.merge.gate == []


def test_specialists_that_are_left_out_leave_their_skills_to_others(project: Path) -> None:
    for members in (1, 2, 3, 4):
        files = files_of(TemplateChoice("specialists", members=members), look_at(project))
        write(project, files, force=True)
        skills = {skill for member in made(project).teammates for skill in member.skills}
        assert skills == {"backend", "data", "tests", "docs", "frontend"}


@pytest.mark.parametrize("after", range(0, 12, 2))
def test_an_interruption_leaves_nothing_behind(
    project: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Ctrl-C at any moment of writing: what was there is there, and nothing else."""
    (project / "roles").mkdir()
    before = sorted(project.rglob("*"))
    files = files_of(TemplateChoice("review", "scripted"), look_at(project))
    left = iter(range(after))
    real = os.replace, templates._staged

    def stop(which: int) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            if next(left, None) is None:
                raise KeyboardInterrupt
            return real[which](*given)

        return call

    monkeypatch.setattr(os, "replace", stop(0))
    monkeypatch.setattr(templates, "_staged", stop(1))
    interrupted = after < 2 * len(files)
    if not interrupted:
        write(project, files, force=False)
        return
    with pytest.raises(KeyboardInterrupt):
        write(project, files, force=False)
    assert sorted(project.rglob("*")) == before


def test_what_lacks_only_a_library_of_ours_is_not_called_missing(project: Path) -> None:
    seen = look_around(project, {"PATH": "/usr/bin:/bin", "OPENAI_API_KEY": "x"})
    bare = replace(
        seen,
        drivers=tuple(
            replace(each, missing="Run: pip install 'bullpen[x]'", path="/bin/codex")
            if each.name in {"native", "codex"}
            else each
            for each in seen.drivers
        ),
    )
    assert bare.best == "scripted"
    assert [each.name for each in bare.nearly] == ["native", "codex"]
    assert bare.lacks("native") == "Run: pip install 'bullpen[x]'", "the key is there"
    assert bare.lacks("codex") == "Run: pip install 'bullpen[x]'", "so is the program"
    without = replace(bare, keys=(), drivers=tuple(replace(d, path=None) for d in bare.drivers))
    assert without.nearly == ()
    assert "Then set ANTHROPIC_API_KEY" in (without.lacks("native") or "")
    assert "npm install" in (without.lacks("codex") or "")


def test_the_list_of_templates_fits_a_terminal_of_80_columns(project: Path, run: Run) -> None:
    wide = max(map(len, TEMPLATES))
    assert all(len(f"  1  {name:<{wide}}  {text}") <= 80 for name, text in TEMPLATES.items())
    lines = run("init", "--list").stdout.splitlines()
    assert max(map(len, lines)) <= 80


def test_somebody_who_names_the_script_is_not_told_what_to_install(project: Path, run: Run) -> None:
    done = run("init", "--template", "review", "--driver", "scripted")
    assert done.exit_code == 0, done.output
    assert "pip install" not in done.output


def test_in_a_repository_without_commits_nobody_is_told_to_run_git_init(
    project: Path, run: Run
) -> None:
    before = run("init", "--template", "backlog", "--driver", "scripted").stdout
    assert "git init -b main && git add . && git commit" in before
    assert os.spawnvp(os.P_WAIT, "git", ["git", "init", "-q"]) == 0
    after = run("init", "--template", "backlog", "--driver", "scripted", "--force").stdout
    assert "git init" not in after
    assert "git add . && git commit" in after
    assert "but the repository at" in after


def test_a_goal_that_is_stated_is_in_the_file_and_needs_no_editor(project: Path, run: Run) -> None:
    goal = 'The "total" is wrong: \\ and 3 + 4 give 8'
    for template in ("debug", "review"):
        done = run("init", "--template", template, "--goal", goal, "--force")
        assert done.exit_code == 0, done.output
        assert goal in (made(project).team.goal or "")
        assert "EDITOR" not in done.stdout
    assert "EDITOR" in run("init", "--template", "debug", "--force").stdout
    assert "SYMPTOM: (write it here)" in (made(project).team.goal or "")
    refused = run("init", "--template", "backlog", "--goal", goal, "--force")
    assert refused.exit_code == 2
    assert "has no goal" in refused.stderr


SCRIPT = """
[[agents.team-lead.turns]]
when = "start"
steps = [
  {tool = "Bash", input = {command = "make test"}, may_fail = true},
  {tool = "Bash", input = {command = "make clean"}, may_fail = true},
  {tool = "Finish", input = {summary = "Tried."}},
]
"""


def test_the_tests_that_init_found_may_be_run_without_asking_and_nothing_else(
    project: Path, run: Run, home: Path
) -> None:
    (project / "Makefile").write_text("test:\n\ttouch tested\nclean:\n\ttouch cleaned\n", "utf-8")
    (project / "play.toml").write_text(SCRIPT, "utf-8")
    played = (
        "run",
        "Try",
        "-t",
        "one",
        "--driver",
        "scripted",
        "--script",
        "play.toml",
        "--approver",
        "policy",
    )
    assert run(*played).exit_code == 0
    assert not (project / "tested").exists(), "before, nothing is allowed"
    done = run("init", "--template", "review", "--driver", "scripted")
    assert "without asking: Bash(make test:*)" in done.stdout
    played_again = run(*("two" if word == "one" else word for word in played))
    assert (project / "tested").exists(), played_again.output
    assert not (project / "cleaned").exists()


def test_a_team_of_the_file_that_was_there_before_is_to_be_deleted_first(
    project: Path, run: Run
) -> None:
    init = ("init", "--template", "backlog", "--driver", "scripted", "--force")
    assert "bullpen team delete" not in run(*init).stdout
    run("team", "create", "shop-backlog")
    shown = run(*init).stdout.splitlines()
    at = shown.index("  bullpen team delete shop-backlog")
    assert shown[at + 1] == "  bullpen up TEAM.toml --dry-run"
