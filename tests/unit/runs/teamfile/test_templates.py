"""`bullpen init`: each template is right for what is there, and leads to a team that works."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.agents.drivers.registry import DRIVERS, capabilities_of
from bullpen.runs.teamfile.project import Project, command_of_tests
from bullpen.runs.teamfile.read import read_team_file
from bullpen.runs.teamfile.templates import IN_TREES, SCHEMA, TEMPLATES, TemplateChoice, files_of
from support.rows import each_row

GUESSES = [
    ({"Makefile": "all:\ntest: all\n"}, "make test"),
    ({"Makefile": "check:\n"}, "make check"),
    ({"Makefile": "tests := x\n"}, None),
    ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, "python3 -m pytest -q"),
    ({"pyproject.toml": "pytest", "uv.lock": ""}, "uv run pytest -q"),
    ({"tests/test_a.py": ""}, "python3 -m unittest"),
    ({"test_a.py": "def test_it():\n    pass\n"}, "python3 -m pytest -q"),
    ({"package.json": '{"scripts": {"test": "jest"}}'}, "npm test"),
    ({"package.json": '{"scripts": {"test": "jest"}}', "yarn.lock": ""}, "yarn test"),
    ({"package.json": '{"scripts": {"test": "echo Error: no test specified"}}'}, None),
    ({"package.json": "{"}, None),
    ({"Cargo.toml": ""}, "cargo test --quiet"),
    ({"go.mod": ""}, "go test ./..."),
    ({}, None),
]


@each_row(("files", "command"), GUESSES)
def test_the_command_that_runs_the_tests_is_guessed(
    tmp_path: Path, files: dict[str, str], command: str | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert command_of_tests(tmp_path) == command


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("driver", [name for name in DRIVERS if name != "acp"])
def test_every_template_is_a_team_file_for_every_driver(
    tmp_path: Path, template: str, driver: str
) -> None:
    project = Project(tmp_path / "my project", None, "trunk", "make test")
    files = files_of(TemplateChoice(template, driver, "claude-x"), project)
    for name, text in files.items():
        path = tmp_path / "out" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    file = read_team_file(tmp_path / "out" / "TEAM.toml")

    assert {member.driver for member in file.members} == {driver}
    assert ("script.toml" in files) is (driver == "scripted")
    assert {member.model for member in file.members} == {
        None if driver == "scripted" else "claude-x"
    }
    if template in IN_TREES:
        assert file.merge is not None
        assert (file.merge.target, file.merge.gate) == ("trunk", ["make test"])
        assert file.workspace.dirty == ("leave" if driver == "scripted" else "refuse")
    elif template == "debug":
        # Nobody may change anything before the judge has seen a plan, where a driver has plans.
        plans = driver != "scripted" and capabilities_of(driver).plan_mode
        modes = {member.mode for member in file.teammates}
        assert modes == {"plan" if plans else "acceptEdits"}
    assert file.team.name.startswith("my-project")
    assert files["TEAM.toml"].startswith(f"#:schema {SCHEMA}\n")
    assert SCHEMA in files
