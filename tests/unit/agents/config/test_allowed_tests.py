"""The test command that `init` found is allowed in its directory, on this machine only."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.agents.config.allowed_tests import allow_tests, rule_for_tests
from bullpen.agents.config.settings import read_settings, users_file_of
from bullpen.protocol.agent import AgentSpec


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout with a folder in it."""
    for name in ("shop/.git", "shop/src", "other"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path / "shop"


def allowed(home: Path, cwd: Path, *, child: bool = False, project: bool = True) -> list[str]:
    """What an agent that is spawned there may do without asking."""
    spec = AgentSpec.new(driver="native", backend="in-process", cwd=str(cwd))
    found = read_settings(cwd, user_home=home, home=home, project=project)
    return found.applied(spec, stated=(), child=child).policy.allow


def test_agents_in_the_directory_and_below_may_run_the_tests(home: Path, project: Path) -> None:
    rule = allow_tests(home, project, "make test")
    assert rule == "Bash(make test:*)"
    assert allowed(home, project) == allowed(home, project / "src") == [rule]
    assert allowed(home, project.parent / "other") == []
    assert allowed(home, project, child=True) == [], "a teammate has what its parent has"
    assert not list(project.rglob("*.toml")), "whoever clones the project has no such rule"


def test_it_is_the_users_own_and_needs_no_trust(home: Path, project: Path) -> None:
    allow_tests(home, project, "make test")
    assert allowed(home, project, project=False) == ["Bash(make test:*)"]
    found = read_settings(project, user_home=home, home=home)
    assert list(found.of_project) == []
    assert found.files[0].path == users_file_of(home, project)


def test_another_command_takes_the_place_of_the_first_and_none_removes_it(
    home: Path, project: Path
) -> None:
    allow_tests(home, project, "make test")
    allow_tests(home, project, "pytest -q")
    assert allowed(home, project) == ["Bash(pytest -q:*)"]
    assert allow_tests(home, project, None) is None
    assert allowed(home, project) == []


def test_a_file_that_somebody_wrote_stays_as_it_is(home: Path, project: Path) -> None:
    path = users_file_of(home, project)
    path.parent.mkdir(parents=True)
    path.write_text('[permissions]\nallow = ["Bash(make:*)"]\n', "utf-8")
    assert allow_tests(home, project, "make test") is None
    assert allowed(home, project) == ["Bash(make:*)"]


@pytest.mark.parametrize("command", ["make lint && make test", "(cd a; make test)", 'sh -c "a"; b'])
def test_what_is_not_one_command_is_allowed_only_as_it_is(command: str) -> None:
    assert rule_for_tests(command) == f"Bash(={command})"


@pytest.mark.parametrize("command", ["make 'all tests'", 'a "b" \\\\ c', "test für alle"])
def test_every_command_is_kept_as_it_was_typed(home: Path, project: Path, command: str) -> None:
    rule = allow_tests(home, project, command)
    assert allowed(home, project) == [rule]
    assert command in str(rule)
