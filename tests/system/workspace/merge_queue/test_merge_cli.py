"""`bullpen merge`: what people see of the queue, and how they say where work goes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from typer.testing import CliRunner, Result

from bullpen.doors.cli.main import app
from bullpen.store.files.store import FileStore
from support.git.repositories import git, make_repository, write
from support.git.yard import TEST, Yard

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command on the home of the yard."""
    for name in [name for name in os.environ if name.startswith("BULLPEN_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("BULLPEN_HOME", str(tmp_path / "home"))

    def invoke(*words: str) -> Result:
        return CliRunner().invoke(app, list(words))

    return invoke


def with_yard(folder: Path, scene: Callable[[Yard], object]) -> Path:
    """A team on disk, after something happened to it; where its repository is."""

    async def make() -> Path:
        files = {"numbers.txt": "# numbers\n", "test.sh": TEST}
        yard = await Yard.make(folder, FileStore(folder / "home"), files=files, retries=0)
        await yard.join("ann", "bob")
        await scene(yard)  # type: ignore[misc]
        return yard.project

    return anyio.run(make)


async def _three(yard: Yard) -> None:
    clash = await yard.take("ann", "Clash")
    yard.user_commits({"numbers.txt": "# the user's\n"})
    await yard.finish("ann", clash, {"numbers.txt": "# ann's\n"})
    await yard.work("bob", {"b.txt": "BROKEN\n"}, "Break")
    await yard.work("ann", {"a.txt": "a\n"}, "Add a")


def test_the_line_is_shown_worked_off_and_its_steps_are_told(run: Run, tmp_path: Path) -> None:
    with_yard(tmp_path, _three)
    shown = run("merge", "list")
    assert shown.exit_code == 0, shown.output
    assert [line.split()[0] for line in shown.stdout.splitlines() if line.startswith("#")] == [
        "#1", "#2", "#3"
    ]  # fmt: skip
    worked = run("merge", "run")
    assert worked.exit_code == 0, worked.output
    assert "merged #3" in worked.stdout
    assert "#1 was returned: conflicts with the target" in worked.stdout
    assert "#2 was returned: checks fail on the target" in worked.stdout
    shown = run("merge", "list")
    assert "conflicts with the target: numbers.txt" in shown.stdout
    assert "checks fail on the target" in shown.stdout
    told = json.loads(run("merge", "log", "--json").stdout)["steps"]
    assert [row["atMs"] for row in told] == sorted(row["atMs"] for row in told)
    assert {row["what"] for row in told} >= {"queued", "conflict", "tested", "returned", "merged"}
    mine = run("merge", "log", "2").stdout
    assert "failed" in mine
    assert "#1" not in mine
    assert "Output of the last failure:\n  exit code 1\n" in mine


def test_one_step_at_a_time_and_as_json(run: Run, tmp_path: Path) -> None:
    with_yard(tmp_path, lambda yard: yard.work("ann", {"a.txt": "a\n"}))
    (stepped,) = json.loads(run("merge", "run", "--once", "--json").stdout)["steps"]
    assert stepped["merged"] == ["1"]
    assert json.loads(run("merge", "run", "--json").stdout)["steps"] == []
    assert run("merge", "run", "--jsonl").stdout == ""
    assert "merge queue is empty" in run("merge", "run", "--once").stdout


def test_what_is_in_the_way_is_named(run: Run, tmp_path: Path) -> None:
    project = with_yard(tmp_path, lambda yard: yard.work("ann", {"numbers.txt": "a=1\n"}))
    write(project, {"numbers.txt": "half\n"})
    once = run("merge", "run", "--once")
    assert "numbers.txt" in once.stderr


def test_where_work_goes_is_said_by_a_person_and_shown(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_repository(tmp_path / "project")
    monkeypatch.chdir(project)
    run("team", "create", "crew")
    assert "has no merge queue" in run("merge", "list").stdout
    refused = run("merge", "run")
    assert refused.exit_code == 2
    changed = run("merge", "set", "--gate", "make test", "--gate", "make lint", "--after", "true")
    assert changed.exit_code == 0, changed.output
    said = json.loads(run("merge", "set", "--json").stdout)["settings"]
    assert (said["repository"], said["target"], said["after"]) == (str(project), "main", "true")
    assert [row["run"] for row in said["gate"]] == ["make test", "make lint"]
    changed = run("merge", "set", "--batch", "8", "--after", "", "--json")
    said = json.loads(changed.stdout)["settings"]
    assert (said["batch"], said.get("after"), said["target"]) == (8, None, "main")
    assert run("merge", "set", "--target", "nowhere").exit_code == 2


def test_an_agent_cannot_say_what_its_own_work_has_to_pass(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_yard(tmp_path, lambda yard: yard.take("ann"))
    monkeypatch.setenv("BULLPEN_NONCE", "0123-of-an-agent")
    refused = run("merge", "set", "--gate", "true")
    assert refused.exit_code == 2
    assert json.loads(run("merge", "list", "--json").stdout)["settings"]["gate"][0]["run"] != "true"


def test_with_the_team_the_tree_for_tests_goes_too(run: Run, tmp_path: Path) -> None:
    project = with_yard(tmp_path, lambda yard: yard.work("ann", {"a.txt": "a\n"}))
    assert run("merge", "run").exit_code == 0
    trees = tmp_path / "project.bullpen" / "crew"
    assert (trees / "+merge").is_dir()
    deleted = run("team", "delete", "crew", "--yes", "--force")
    assert deleted.exit_code == 0, deleted.output
    assert not (trees / "+merge").exists()
    assert "+merge" not in git(project, "worktree", "list")
