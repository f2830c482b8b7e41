"""Which tree an agent would get, and what is refused by name before anything is touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bullpen.errors import Invalid, Refused, Unavailable
from bullpen.protocol.agent import Workspace
from bullpen.workspace.git.repository import checkout_of, is_changed, repository_at
from bullpen.workspace.trees.tree import plan
from support.git.repositories import (
    add_lfs,
    add_submodule,
    belongings,
    commit,
    git,
    make_repository,
    write,
)


def planned(cwd: Path, **more: object) -> Workspace:
    return plan("worktree", cwd, team="night", agent="ann", **more)  # type: ignore[arg-type]


def reason(cwd: Path, **more: object) -> str:
    with pytest.raises(Refused) as refused:
        planned(cwd, **more)
    assert refused.value.remedy
    return refused.value.reason


def test_a_tree_is_beside_the_repository_on_a_branch_of_its_own(project: Path) -> None:
    found = planned(project / "src")
    assert found.path == str(project.parent / "project.bullpen" / "night" / "ann")
    assert (found.inside, found.branch, found.base) == ("src", "bullpen/night/ann", "main")
    assert found.repository == str(project)


def test_planning_touches_nothing(project: Path, tmp_path: Path) -> None:
    before, around = belongings(project), sorted(tmp_path.iterdir())
    planned(project)
    plan("clone", project, team="night", agent="ann")
    plan("shared", project, team="night", agent="ann")
    assert (belongings(project), sorted(tmp_path.iterdir())) == (before, around)
    assert sorted(each.name for each in (project / ".git").glob("bullpen*")) == []


def test_r_8a_no_repository_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    assert reason(tmp_path / "plain") == "no_repository"


def test_r_8a_a_bare_repository_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "bare.git")
    assert reason(tmp_path / "bare.git") == "bare_repository"


def test_r_8a_the_inside_of_a_git_directory_is_no_tree(project: Path) -> None:
    assert reason(project / ".git") == "bare_repository"


def test_r_8a_a_repository_without_commits_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "new")
    assert reason(tmp_path / "new") == "no_commits"


def test_a_directory_that_is_gone_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="gone"):
        planned(tmp_path / "gone")


@pytest.mark.parametrize("kind", ["staged", "changed", "new", "deleted"])
def test_r_8a_a_dirty_start_is_refused_and_names_the_paths(project: Path, kind: str) -> None:
    if kind == "deleted":
        (project / "a.txt").unlink()
    else:
        write(project, {"new file.txt" if kind == "new" else "a.txt": "mine\n"})
    if kind == "staged":
        git(project, "add", "a.txt")
    with pytest.raises(Refused, match=r"new file\.txt" if kind == "new" else r"a\.txt") as refused:
        planned(project)
    assert refused.value.reason == "dirty_start"
    assert planned(project, dirty="leave").dirty == "leave"


def test_what_is_ignored_is_no_dirty_start(project: Path) -> None:
    commit(project, {".gitignore": "build/\n"})
    write(project, {"build/out": "x"})
    assert planned(project).base == "main"


def test_looking_for_changes_leaves_the_index_alone(project: Path) -> None:
    index = project / ".git" / "index"
    write(project, {"a.txt": "two\n", "b\nc": "", "ü": ""})
    write(project, {"a.txt": "one\n"})  # as it was, but from another time than the index says
    os.utime(project / "a.txt", (1e9, 1e9))
    before = index.read_bytes()
    assert is_changed(project) == ["b\nc", "ü"]
    assert index.read_bytes() == before


def test_many_dirty_paths_are_counted_and_some_named(project: Path) -> None:
    write(project, {f"new{number:03}": "" for number in range(40)})
    with pytest.raises(Refused, match=r"40 uncommitted files .*'new009' and 30 more"):
        planned(project)


def test_a_detached_head_is_begun_with_as_a_commit(project: Path) -> None:
    first = git(project, "rev-parse", "HEAD")
    commit(project, {"a.txt": "two\n"})
    git(project, "checkout", "--quiet", "--detach", first)
    assert planned(project).base == first


def test_a_named_base_is_kept_as_the_branch_or_the_commit(project: Path) -> None:
    first = git(project, "rev-parse", "HEAD")
    git(project, "branch", "release")
    git(project, "tag", "v1")
    assert planned(project, base="release").base == "release"
    assert planned(project, base="v1").base == first
    with pytest.raises(Invalid, match="no-such"):
        planned(project, base="no-such")
    with pytest.raises(Invalid):
        planned(project, base="--output=x")


def test_a_rebase_half_way_is_named_and_can_be_left(project: Path) -> None:
    commit(project, {"a.txt": "two\n"})
    git(project, "-c", "sequence.editor=sed -i s/pick/edit/", "rebase", "--quiet", "-i", "HEAD~1")
    assert reason(project) == "under_way"
    assert planned(project, base="main").base == "main"
    assert planned(project, dirty="leave").base == git(project, "rev-parse", "HEAD")


def test_a_merge_half_way_is_named_in_the_dirty_start(project: Path) -> None:
    git(project, "checkout", "--quiet", "-b", "side")
    commit(project, {"a.txt": "side\n"})
    git(project, "checkout", "--quiet", "main")
    commit(project, {"a.txt": "main\n"})
    git(project, "merge", "side", ok=False)
    with pytest.raises(Refused, match="in the middle of a merge"):
        planned(project)
    assert planned(project, dirty="leave").base == "main"


@pytest.mark.parametrize("name", ["bullpen", "bullpen/night", "bullpen/night/ann/old"])
def test_a_branch_that_leaves_no_room_for_ours_is_refused(project: Path, name: str) -> None:
    git(project, "branch", name)
    assert reason(project) == "branch_in_the_way"


def test_files_in_lfs_are_refused_without_its_program(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_lfs(project)
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("git", "sh"):
        (programs / name).symlink_to(Path("/usr/bin") / name)
    monkeypatch.setenv("PATH", str(programs))
    assert reason(project) == "lfs_missing"
    # There is a program, but git was never told to use it: files would be pointers all the same.
    (programs / "git-lfs").write_text("#!/bin/sh\n")
    (programs / "git-lfs").chmod(0o755)
    assert reason(project) == "lfs_missing"
    git(project, "config", "filter.lfs.smudge", "git-lfs smudge -- %f")
    # Only this repository says so, and an agent may have written that.
    assert reason(project) == "lfs_missing"
    git(project, "config", "--global", "filter.lfs.smudge", "git-lfs smudge -- %f")
    assert planned(project).kind == "worktree"


def test_lfs_that_only_another_branch_uses_is_no_matter(project: Path) -> None:
    git(project, "checkout", "--quiet", "-b", "big")
    add_lfs(project)
    git(project, "checkout", "--quiet", "main")
    assert planned(project).base == "main"
    with pytest.raises(Refused, match="LFS"):
        planned(project, base="big")


def test_a_directory_that_is_not_committed_is_refused(project: Path) -> None:
    commit(project, {".gitignore": "out/\n"})
    (project / "out").mkdir()
    assert reason(project / "out") == "directory_missing"


def test_trees_inside_of_the_users_tree_must_be_ignored(project: Path) -> None:
    assert reason(project, root=Path(".trees")) == "root_in_tree"
    commit(project, {".gitignore": ".trees/\n"})
    assert Path(planned(project, root=Path(".trees")).path).is_relative_to(project / ".trees")


def test_a_root_where_nothing_can_be_written_is_said_with_what_to_do(
    project: Path, tmp_path: Path
) -> None:
    with pytest.raises(Unavailable, match="another root"):
        planned(project, root=tmp_path / "gitconfig" / "below")


def test_a_start_in_a_linked_tree_puts_trees_beside_the_first_one(
    project: Path, tmp_path: Path
) -> None:
    git(project, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "far" / "side"))
    found = planned(tmp_path / "far" / "side" / "src")
    assert found.path == str(tmp_path / "project.bullpen" / "night" / "ann")
    assert (found.base, found.inside) == ("side", "src")


def test_a_start_in_a_tree_of_a_bare_repository_puts_trees_beside_that(
    project: Path, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "--quiet", "--bare", str(project), "store/thing.git")
    git(tmp_path / "store" / "thing.git", "worktree", "add", "--quiet", str(tmp_path / "main"))
    found = planned(tmp_path / "main")
    assert found.path == str(tmp_path / "store" / "thing.bullpen" / "night" / "ann")


def test_a_start_in_a_submodule_puts_no_trees_into_the_project_above(
    project: Path, tmp_path: Path
) -> None:
    add_submodule(project, make_repository(tmp_path / "lib"), "deps/lib")
    found = planned(project / "deps" / "lib")
    assert found.path == str(tmp_path / "lib.bullpen" / "night" / "ann")


def test_a_shared_tree_is_the_users_own_and_need_not_be_a_repository(
    project: Path, tmp_path: Path
) -> None:
    found = plan("shared", project / "src", team="night", agent="ann")
    assert (found.path, found.inside, found.branch) == (str(project), "src", None)
    (tmp_path / "plain").mkdir()
    plain = plan("shared", tmp_path / "plain", team="night", agent="ann")
    assert (plain.path, plain.inside) == (str(tmp_path / "plain"), "")


def test_the_worktree_of_a_branch_is_found_whatever_its_path(project: Path, tmp_path: Path) -> None:
    odd = tmp_path / "line\nbreak ü"
    git(project, "worktree", "add", "--quiet", "-b", "side", str(odd))
    git(project, "worktree", "lock", "--reason", "on a disk", str(odd))
    git(project, "worktree", "add", "--quiet", "--detach", str(tmp_path / "gone"))
    git(tmp_path, "-C", str(tmp_path / "gone"), "status")
    for file in (tmp_path / "gone" / "src" / "b.py", tmp_path / "gone" / ".git"):
        file.unlink()
    assert checkout_of(project, "side") == odd
    assert checkout_of(odd, "main") == project
    assert checkout_of(project, "gone") is None


@pytest.mark.parametrize("name", ["with space", "ünï-ço∂é", "line\nbreak", "quo'te\"s", "-dash"])
def test_odd_paths_are_paths(tmp_path: Path, name: str) -> None:
    odd = make_repository(tmp_path / name / "project", {"in side/file": "x\n"})
    found = planned(odd / "in side")
    assert found.path == str(tmp_path / name / "project.bullpen" / "night" / "ann")
    assert repository_at(odd).common == odd / ".git"
