"""`bullpen workspace`, `bullpen team delete` and the doctor: what people see of trees."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from typer.testing import CliRunner

from bullpen.agents.system.folders import tree_owner
from bullpen.app.app import open_app
from bullpen.app.settings import settings_from
from bullpen.doors.cli.main import app
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.workspace.trees.tree import plan, prepare
from support.git.repositories import belongings, commit, git, write

Run = Callable[..., Any]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where the teams live."""
    return tmp_path / "home"


@pytest.fixture
def run(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line from a folder that is no repository."""
    monkeypatch.setenv("BULLPEN_HOME", str(home))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    def call(*words: str, code: int = 0) -> Any:
        result = CliRunner().invoke(app, [*words, "--json"])
        assert result.exit_code == code, (result.output, result.exception)
        return json.loads(result.stdout) if result.stdout else None

    return call


def hire(
    home: Path, project: Path, *names: str, team: str = "night", kind: str = "worktree"
) -> None:
    """Agents that have trees and have ended."""

    async def make() -> None:
        async with open_app(settings_from({}, home=home)) as bullpen_app:
            if team not in await bullpen_app.teams.names():
                await bullpen_app.teams.create(team, by=LEAD)
            members = bullpen_app.teams.open(team)
            owner = tree_owner(home, await members.agents.config())
            for name in names:
                tree = plan(
                    "clone" if kind == "clone" else "worktree", project, team=team, agent=name
                )
                prepare(tree, team=team, agent=name, owner=owner)
                spec = AgentSpec.new(
                    driver="scripted", backend="subprocess", cwd=tree.path, workspace=tree.raw
                )
                await members.agents.register(name, spec, by=LEAD, nonce=name)
                await members.agents.end(name, "stopped", by=LEAD, nonce=name)

    anyio.run(make)


def tree_of(project: Path, name: str, team: str = "night") -> Path:
    return project.parent / f"{project.name}.bullpen" / team / name


def test_trees_are_listed_kept_and_brought_back(run: Run, home: Path, project: Path) -> None:
    hire(home, project, "ann", "bob")
    ann = tree_of(project, "ann")
    commit(ann, {"mine": "x\n"})
    write(ann, {"a.txt": "changed\n"})
    rows = run("workspace", "list")["worktrees"]
    assert [(row["agent"], row["ahead"], row["behind"], row["changed"]) for row in rows] == [
        ("ann", 1, 0, ["a.txt"]),
        ("bob", 0, 0, []),
    ]
    assert rows[0]["branch"] == "bullpen/night/ann" and rows[0]["inUseBy"] == []
    git(project, "commit", "--quiet", "--allow-empty", "--message=somebody else's")
    git(project, "cherry-pick", "bullpen/night/ann")
    [ann_row, _] = run("workspace", "list")["worktrees"]
    assert (ann_row["ahead"], ann_row["behind"]) == (0, 2), "its work is on the base, rebased"
    kept = run("workspace", "save", "ann", "--why", "to see")["snapshot"]
    assert (kept["ref"], kept["why"]) == ("refs/bullpen/night/ann/1", "to see")
    assert run("workspace", "save", "bob")["snapshot"] is None
    saved = run("workspace", "saved")["snapshots"]
    assert run("workspace", "show", "ann")["snapshots"] == [kept] == saved
    back = run("workspace", "restore", "night/ann/1")
    assert Path(back["path"]).parent.parent == ann.parent.parent
    assert (Path(back["path"]) / "a.txt").read_text() == "changed\n"
    again = run("workspace", "restore", "night/ann/1")
    assert again["path"] != back["path"]
    run("workspace", "restore", "night/ann/1", back["path"], code=2)
    run("workspace", "restore", "night/ann/9", code=3)
    run("workspace", "show", "nobody", code=3)


def test_what_people_read_names_the_tree_and_the_snapshot(
    run: Run, home: Path, project: Path
) -> None:
    hire(home, project, "ann")
    write(tree_of(project, "ann"), {"a.txt": "changed\n"})
    for words, expected in (
        (["workspace", "list"], "bullpen/night/ann"),
        (["workspace", "show", "ann"], "changed: a.txt"),
        (["workspace", "save", "ann"], "bullpen workspace restore night/ann/1"),
        (["workspace", "saved"], "night/ann/1"),
        (["workspace", "restore", "night/ann/1"], "Restored "),
        (["workspace", "remove", "ann"], "saved as refs/bullpen/night/ann/1"),
    ):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, (words, result.output)
        assert expected in result.stdout, result.stdout


def test_one_tree_or_all_are_removed_and_those_that_stay_are_named(
    run: Run, home: Path, project: Path
) -> None:
    hire(home, project, "ann", "bob", "cid")
    write(tree_of(project, "ann"), {"new": "x\n"})
    (end,) = run("workspace", "remove", "ann")["worktrees"]
    assert end["removed"] and end["snapshot"] == "refs/bullpen/night/ann/1"
    assert not tree_of(project, "ann").exists()
    run("workspace", "remove", code=2)
    with subprocess.Popen(["sleep", "60"], cwd=tree_of(project, "bob")) as user:
        try:
            run("workspace", "remove", "bob", code=2)
            ends = run("workspace", "remove", "--all", code=1)["worktrees"]
        finally:
            user.kill()
    assert {end["agent"]: end["removed"] for end in ends} == {
        "ann": True,
        "bob": False,
        "cid": True,
    }
    assert str(user.pid) in next(end["why"] for end in ends if end["agent"] == "bob")
    assert tree_of(project, "bob").exists() and not tree_of(project, "cid").exists()


def test_the_tree_of_an_agent_that_is_at_work_stays(run: Run, home: Path, project: Path) -> None:
    hire(home, project, "ann")

    async def revive() -> None:
        async with open_app(settings_from({}, home=home)) as bullpen_app:
            agents = bullpen_app.teams.open("night").agents
            await agents.relaunch("ann", by=LEAD, nonce="again")

    anyio.run(revive)
    assert run("workspace", "remove", "ann", code=2)["error"]["reason"] == "members_alive"
    assert tree_of(project, "ann").exists()


def test_a_team_that_is_deleted_takes_its_trees_along_and_keeps_what_was_in_them(
    run: Run, home: Path, project: Path, tmp_path: Path
) -> None:
    before = belongings(project)
    hire(home, project, "ann", "bob")
    hire(home, project, "dan", kind="clone")
    for name in ("ann", "bob", "dan"):
        write(tree_of(project, name), {"new": f"{name}\n"})
    with subprocess.Popen(["sleep", "60"], cwd=tree_of(project, "bob")) as user:
        try:
            deleted = run("team", "delete", "night", "--yes")
        finally:
            user.kill()
    ends = {end["agent"]: end for end in deleted["trees"]}
    assert deleted["deleted"] and not ends["bob"]["removed"] and str(user.pid) in ends["bob"]["why"]
    assert [ends[name]["snapshot"] for name in ("ann", "dan")] == [
        "refs/bullpen/night/ann/1",
        "refs/bullpen/night/dan/1",
    ]
    assert tree_of(project, "bob").exists()
    # The team is gone: the repository says what there is.
    (row,) = run("workspace", "list", "--repository", str(project))["worktrees"]
    assert (row["agent"], row["changed"]) == ("bob", ["new"])
    for name in ("ann", "dan"):
        into = str(tmp_path / f"back-{name}")
        run("workspace", "restore", f"night/{name}/1", into, "--repository", str(project))
        assert Path(into, "new").read_text(encoding="utf-8") == f"{name}\n"
    found = run("doctor", "--all", code=1)["findings"]
    assert [(each["kind"], each["fixed"]) for each in found] == [("left_tree", False)]
    assert found[0]["where"] == str(tree_of(project, "bob"))
    fixed = run("doctor", "--all", "--fix")["findings"]
    assert "refs/bullpen/night/bob/1" in fixed[0]["action"]
    assert not tree_of(project, "bob").exists()
    assert run("doctor", "--all")["findings"] == []
    git(project, "worktree", "remove", "--force", str(tmp_path / "back-ann"))
    assert belongings(project) == before
    assert len(run("workspace", "saved", "--repository", str(project))["snapshots"]) == 3


def test_trees_of_another_home_are_left_alone(
    run: Run, home: Path, project: Path, tmp_path: Path
) -> None:
    hire(tmp_path / "other", project, "ann")
    hire(home, project, "bob", team="day")
    assert run("doctor", "--all", "--fix")["findings"] == []
    error = run("workspace", "remove", "ann", "--repository", str(project), code=2)["error"]
    assert error["reason"] == "tree_taken"
    assert tree_of(project, "ann").exists()


def test_the_doctor_finds_the_tree_of_a_member_that_left_and_a_removal_that_was_cut_short(
    run: Run, home: Path, project: Path
) -> None:
    hire(home, project, "ann", "bob")
    run("member", "remove", "ann")
    bob = tree_of(project, "bob")
    write(bob, {"new": "x\n"})
    os.rename(bob, bob.parent / "+bob.removing")
    found = {each["kind"]: each for each in run("doctor", "--all", "--fix")["findings"]}
    assert found["left_tree"]["where"] == str(tree_of(project, "ann"))
    assert found["half_removed_tree"]["fixed"]
    assert not tree_of(project, "ann").exists()
    assert (bob / "new").exists()
