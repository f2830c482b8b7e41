"""Clones: repositories of their own, from the user's or from a remote."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bullpen.errors import Refused, Unavailable
from bullpen.protocol.agent import Workspace
from bullpen.workspace.trees.tree import Prepared, mark_of, plan, prepare
from support.git.repositories import (
    add_remote,
    add_submodule,
    belongings,
    commit,
    files_below,
    git,
    make_repository,
    make_sparse,
    write,
)

OWNER = "home-1/night"


def planned(cwd: Path, **more: object) -> Workspace:
    return plan("clone", cwd, team="night", agent="ann", **more)  # type: ignore[arg-type]


def prepared(workspace: Workspace, owner: str = OWNER) -> Prepared:
    return prepare(workspace, team="night", agent="ann", owner=owner)


def reason(cwd: Path, **more: object) -> str:
    with pytest.raises(Refused) as refused:
        prepared(planned(cwd, **more))
    return refused.value.reason


def test_r_8a_a_clone_is_a_repository_of_its_own(project: Path) -> None:
    before = belongings(project)
    workspace = planned(project / "src")
    found = prepared(workspace)
    top = Path(workspace.path)
    assert (found.cwd, found.made) == (f"{top}/src", True)
    assert git(Path(found.cwd), "rev-parse", "--show-toplevel") == workspace.path
    assert git(top, "branch", "--show-current") == "bullpen/night/ann"
    assert git(top, "rev-parse", "HEAD") == git(project, "rev-parse", "main")
    assert git(top, "remote", "get-url", "origin") == str(project)
    assert git(top, "status", "--porcelain") == ""
    assert (top / "src" / "b.py").read_text() == "b = 1\n"
    assert belongings(project) == before
    mark = mark_of(top)
    assert mark is not None and mark.ready and mark.kind == "clone"


def test_a_clone_of_a_path_shares_its_objects_and_needs_no_network(project: Path) -> None:
    workspace = planned(project)
    prepared(workspace)
    objects = [file for file in Path(workspace.path, ".git/objects").rglob("*") if file.is_file()]
    assert objects
    assert all(file.stat().st_nlink > 1 for file in objects)


def test_a_clone_is_found_again_as_it_is(project: Path) -> None:
    workspace = planned(project)
    first = prepared(workspace)
    top = Path(workspace.path)
    commit(top, {"done": "1\n"})
    write(top, {"half": "x\n"})
    before = files_below(top)
    again = prepared(workspace)
    assert (again.made, again.env) == (False, first.env)
    assert files_below(top) == before


def test_a_clone_of_another_owner_or_something_else_is_refused(project: Path) -> None:
    workspace = planned(project)
    prepared(workspace)
    with pytest.raises(Refused) as refused:
        prepared(workspace, owner="home-2/night")
    assert refused.value.reason == "tree_taken"
    (Path(workspace.path) / ".git" / "bullpen.json").unlink()
    assert reason(project) == "path_taken"
    assert (Path(workspace.path) / "a.txt").exists()


def test_a_half_made_clone_is_made_again(project: Path) -> None:
    workspace = planned(project)
    place = Path(workspace.path)
    write(place.parent / "+ann.making.x", {".git/half": "x", "a.txt": "ha"})
    assert prepared(workspace).made
    assert sorted(each.name for each in place.parent.iterdir()) == ["+ann.lock", "ann"]


def test_a_clone_of_a_named_remote_comes_from_its_url(project: Path, tmp_path: Path) -> None:
    remote = add_remote(project, "up", tmp_path / "up.git")
    git(project, "fetch", "--quiet", "up")
    workspace = planned(project, remote="up")
    assert workspace.repository == str(remote)
    prepared(workspace)
    assert git(Path(workspace.path), "remote", "get-url", "origin") == str(remote)
    url = f"file://{remote}"
    assert planned(project, remote=url).repository == url
    assert planned(project, remote="./up").repository == str(project / "up")


def test_a_remote_that_is_not_there_is_refused_with_those_that_are(
    project: Path, tmp_path: Path
) -> None:
    add_remote(project, "up", tmp_path / "up.git")
    with pytest.raises(Refused, match="remotes are up") as refused:
        planned(project, remote="upstream")
    assert refused.value.reason == "which_remote"


def test_elsewhere_it_must_be_clear_which_remote_is_meant(project: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no remote") as refused:
        planned(project, elsewhere=True)
    assert refused.value.reason == "which_remote"
    up = add_remote(project, "up", tmp_path / "up.git")
    git(project, "fetch", "--quiet", "up")
    assert planned(project, elsewhere=True).repository == str(up)
    add_remote(project, "down", tmp_path / "down.git")
    with pytest.raises(Refused, match="up") as refused:
        planned(project, elsewhere=True)
    assert refused.value.reason == "which_remote"
    origin = add_remote(project, "origin", tmp_path / "origin.git")
    git(project, "fetch", "--quiet", "--all")
    assert planned(project, elsewhere=True).repository == str(origin)


def test_commits_that_a_remote_lacks_are_like_a_dirty_start(project: Path, tmp_path: Path) -> None:
    add_remote(project, "up", tmp_path / "up.git")
    git(project, "fetch", "--quiet", "up")
    commit(project, {"a.txt": "not pushed\n"})
    assert reason(project, remote="up") == "not_pushed"
    workspace = planned(project, remote="up", dirty="leave")
    prepared(workspace)
    assert (Path(workspace.path) / "a.txt").read_text() == "one\n"


def test_a_base_that_the_remote_does_not_have_leaves_nothing(project: Path, tmp_path: Path) -> None:
    add_remote(project, "up", tmp_path / "up.git")
    git(project, "branch", "only-here")
    assert reason(project, remote="up", base="only-here", dirty="leave") == "base_missing"
    folder = tmp_path / "project.bullpen" / "night"
    assert [each.name for each in folder.iterdir()] == ["+ann.lock"]


def test_a_source_that_cannot_be_reached_is_not_an_empty_repository(
    project: Path, tmp_path: Path
) -> None:
    with pytest.raises(Unavailable, match=r"nowhere\.git"):
        prepared(planned(project, remote=f"file://{tmp_path}/nowhere.git"))


def test_a_clone_has_the_submodules_of_the_users_tree(project: Path, tmp_path: Path) -> None:
    library = make_repository(tmp_path / "library", {"lib.txt": "l\n"})
    add_submodule(project, library, "deps/lib")
    library.rename(tmp_path / "away")
    workspace = planned(project)
    prepared(workspace)
    assert (Path(workspace.path) / "deps/lib/lib.txt").read_text() == "l\n"
    assert git(Path(workspace.path), "status", "--porcelain") == ""


def test_submodules_of_a_clone_from_a_url_come_from_where_it_says(
    project: Path, tmp_path: Path
) -> None:
    library = make_repository(tmp_path / "library", {"lib.txt": "l\n"})
    add_submodule(project, library, "deps/lib")
    remote = add_remote(project, "up", tmp_path / "up.git")
    workspace = planned(project, remote=f"file://{remote}")
    prepared(workspace)
    assert (Path(workspace.path) / "deps/lib/lib.txt").read_text() == "l\n"
    shutil.rmtree(workspace.path)
    library.rename(tmp_path / "away")
    assert reason(project, remote=f"file://{remote}") == "submodule_missing"
    assert not Path(workspace.path).exists()


def test_a_clone_of_a_sparse_tree_is_sparse(project: Path) -> None:
    commit(project, {"far/away.txt": "x\n", "near/by.txt": "y\n"})
    make_sparse(project, "near")
    workspace = planned(project)
    prepared(workspace)
    assert set(files_below(Path(workspace.path))) == {"a.txt", "near/by.txt"}
    assert git(Path(workspace.path), "status", "--porcelain") == ""


def test_a_clone_of_a_shallow_repository_works(project: Path, tmp_path: Path) -> None:
    commit(project, {"a.txt": "two\n"})
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{project}", "shallow")
    workspace = planned(tmp_path / "shallow")
    prepared(workspace)
    assert (Path(workspace.path) / "a.txt").read_text() == "two\n"


def test_a_clone_begins_with_a_detached_head_that_no_branch_has(project: Path) -> None:
    git(project, "checkout", "--quiet", "--detach")
    loose = commit(project, {"a.txt": "loose\n"})
    workspace = planned(project)
    prepared(workspace)
    assert git(Path(workspace.path), "rev-parse", "HEAD") == loose


def test_a_clone_from_a_linked_tree_comes_from_the_first_one(project: Path, tmp_path: Path) -> None:
    git(project, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    side = commit(tmp_path / "side", {"a.txt": "side\n"})
    workspace = planned(tmp_path / "side")
    assert workspace.repository == str(project)
    prepared(workspace)
    assert git(Path(workspace.path), "rev-parse", "HEAD") == side
