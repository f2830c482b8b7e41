"""Trees are made, found again as they are, and never taken from somebody else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bullpen.errors import Refused, Unavailable
from bullpen.protocol.agent import Workspace
from bullpen.workspace.git.marks import claim_of, locked, put_mark
from bullpen.workspace.git.repository import git_dir
from bullpen.workspace.git.run_git import GitFailed
from bullpen.workspace.trees.tree import Prepared, mark_of, plan, prepare
from support.git.repositories import (
    add_hook,
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


def planned(cwd: Path, agent: str = "ann", **more: object) -> Workspace:
    return plan("worktree", cwd, team="night", agent=agent, **more)  # type: ignore[arg-type]


def prepared(workspace: Workspace, agent: str = "ann", owner: str = OWNER) -> Prepared:
    return prepare(workspace, team="night", agent=agent, owner=owner)


def reason(workspace: Workspace, agent: str = "ann", owner: str = OWNER) -> str:
    with pytest.raises(Refused) as refused:
        prepared(workspace, agent, owner)
    return refused.value.reason


def nothing_is_left(project: Path) -> bool:
    """Whether neither a tree, a branch nor a record of ours is there."""
    listed = git(project, "worktree", "list", "--porcelain").count("worktree ")
    claims = list((project / ".git" / "bullpen").rglob("*.json"))
    ours = [each for each in project.parent.rglob("*.bullpen/night/*") if each.name[0] != "+"]
    return not (listed > 1 or git(project, "branch", "--list", "bullpen/*") or claims or ours)


def test_r_8a_what_git_takes_for_the_tree_is_the_tree(project: Path) -> None:
    workspace = planned(project / "src")
    found = prepared(workspace)
    assert found.cwd == f"{workspace.path}/src"
    assert found.env["BULLPEN_WORKSPACE"] == workspace.path
    assert git(Path(found.cwd), "rev-parse", "--show-toplevel") == workspace.path
    assert git(Path(found.cwd), "branch", "--show-current") == "bullpen/night/ann"
    assert found.made


def test_a_new_tree_has_the_files_of_its_base_and_the_users_things_are_untouched(
    project: Path,
) -> None:
    write(project, {"a.txt": "stashed\n"})
    git(project, "stash")
    write(project, {"a.txt": "mine\n", "staged": "s\n", "new": "n\n"})
    git(project, "add", "staged")
    before = belongings(project)
    workspace = planned(project, dirty="leave")
    prepared(workspace)
    assert belongings(project) == before
    assert files_below(Path(workspace.path)) == {
        "a.txt": ("file", b"one\n"),
        "src/b.py": ("file", b"b = 1\n"),
    }
    assert git(Path(workspace.path), "status", "--porcelain") == ""


def test_a_tree_is_found_again_as_it_is(project: Path) -> None:
    workspace = planned(project)
    first = prepared(workspace)
    tree = Path(workspace.path)
    commit(tree, {"done": "1\n"})
    write(tree, {"a.txt": "half\n", "staged": "s\n", "new": "n\n"})
    git(tree, "add", "staged")
    git(tree, "checkout", "--quiet", "--detach")
    commit(project, {"later": "x\n"})
    before = git(tree, "status", "--porcelain=v2", "--branch"), files_below(tree)
    again = prepared(workspace)
    assert (again.made, again.cwd, again.env) == (False, first.cwd, first.env)
    assert (git(tree, "status", "--porcelain=v2", "--branch"), files_below(tree)) == before


def test_a_tree_is_found_again_though_the_users_own_tree_is_gone(
    project: Path, tmp_path: Path
) -> None:
    git(project, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    workspace = planned(tmp_path / "side")
    prepared(workspace)
    git(project, "worktree", "remove", str(tmp_path / "side"))
    assert not prepared(workspace).made


def test_r_11a_a_tree_whose_folder_was_deleted_is_made_again_from_its_branch(
    project: Path,
) -> None:
    workspace = planned(project)
    prepared(workspace)
    tree = Path(workspace.path)
    done = commit(tree, {"done": "1\n"})
    write(tree, {"staged": "kept by the index\n"})
    git(tree, "add", "staged")
    shutil.rmtree(tree)
    assert prepared(workspace).made
    assert git(tree, "rev-parse", "HEAD") == done
    assert git(tree, "status", "--porcelain") == "A  staged"
    assert (tree / "staged").read_text() == "kept by the index\n"
    assert (tree / "a.txt").read_text() == "one\n"


def test_r_11a_also_after_git_was_told_to_forget_it(project: Path) -> None:
    workspace = planned(project)
    prepared(workspace)
    tree = Path(workspace.path)
    done = commit(tree, {"done": "1\n"})
    shutil.rmtree(tree)
    git(project, "worktree", "prune")
    assert prepared(workspace).made
    assert git(tree, "rev-parse", "HEAD") == done
    assert git(tree, "branch", "--show-current") == "bullpen/night/ann"


def test_a_tree_in_conflict_whose_folder_was_deleted_keeps_its_conflict(project: Path) -> None:
    workspace = planned(project)
    prepared(workspace)
    tree = Path(workspace.path)
    commit(tree, {"a.txt": "ann\n"})
    commit(project, {"a.txt": "main\n"})
    git(tree, "merge", "main", ok=False)
    shutil.rmtree(tree)
    prepared(workspace)
    assert len(git(tree, "ls-files", "--unmerged").splitlines()) == 3
    assert (tree / "src" / "b.py").exists()


def test_a_tree_that_lost_its_link_to_git_gets_it_again_and_nothing_else(
    project: Path, tmp_path: Path
) -> None:
    git(tmp_path, "init", "--quiet")  # the repository above, into which everything would go
    workspace = planned(project)
    prepared(workspace)
    tree = Path(workspace.path)
    write(tree, {"half": "x\n"})
    (tree / ".git").unlink()
    prepared(workspace)
    assert git(tree, "rev-parse", "--show-toplevel") == str(tree)
    assert git(tree, "status", "--porcelain") == "?? half"


def test_r_8a_a_tree_that_became_another_repository_is_refused(project: Path) -> None:
    workspace = planned(project)
    prepared(workspace)
    tree = Path(workspace.path)
    (tree / ".git").unlink()
    git(tree, "init", "--quiet")
    assert reason(workspace) == "path_taken"
    assert (tree / "a.txt").exists()


def test_a_locked_tree_whose_disk_is_away_is_not_made_again(project: Path, tmp_path: Path) -> None:
    workspace = planned(project)
    prepared(workspace)
    git(project, "worktree", "lock", "--reason", "usb", workspace.path)
    os.rename(workspace.path, tmp_path / "away")
    with pytest.raises(Refused, match="usb") as refused:
        prepared(workspace)
    assert refused.value.reason == "tree_locked"
    assert not Path(workspace.path).exists()


def test_a_tree_of_another_owner_is_refused(project: Path) -> None:
    workspace = planned(project)
    prepared(workspace)
    assert reason(workspace, owner="home-2/night") == "tree_taken"
    mark = mark_of(Path(workspace.path))
    assert mark is not None and mark.ready and mark.owner == OWNER


def test_a_branch_of_another_owner_is_refused_though_its_tree_is_gone(project: Path) -> None:
    workspace = planned(project)
    prepared(workspace)
    commit(Path(workspace.path), {"done": "1\n"})
    git(project, "worktree", "remove", workspace.path)
    assert reason(workspace, owner="home-2/night") == "branch_taken"


@pytest.mark.parametrize("what", ["file", "folder", "link", "tree", "tree without files"])
def test_what_is_in_the_place_of_a_tree_is_refused_and_kept(
    project: Path, tmp_path: Path, what: str
) -> None:
    workspace = planned(project)
    place = Path(workspace.path)
    place.parent.mkdir(parents=True)
    if what == "file":
        place.write_text("mine\n", "utf-8")
    elif what == "folder":
        write(place, {"mine": "x\n"})
    elif what == "link":
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    else:
        bare = ["--no-checkout"] if what == "tree without files" else []
        git(project, "worktree", "add", "--quiet", *bare, "-b", "mine", str(place))
    before = files_below(tmp_path)
    assert reason(workspace) == "path_taken"
    after = files_below(tmp_path)
    assert {name: after[name] for name in before} == before
    assert git(project, "branch", "--list", "bullpen/*") == ""
    if "tree" in what:
        assert git(place, "branch", "--show-current") == "mine"


def test_an_empty_folder_is_no_hindrance(project: Path) -> None:
    workspace = planned(project)
    Path(workspace.path).mkdir(parents=True)
    assert prepared(workspace).made


def test_a_branch_that_is_checked_out_elsewhere_is_refused(project: Path, tmp_path: Path) -> None:
    git(project, "worktree", "add", "--quiet", "-b", "bullpen/night/ann", str(tmp_path / "mine"))
    assert reason(planned(project)) == "branch_taken"


def test_a_branch_with_commits_that_are_not_ours_is_refused(project: Path) -> None:
    git(project, "checkout", "--quiet", "-b", "bullpen/night/ann")
    work = commit(project, {"a.txt": "mine\n"})
    git(project, "checkout", "--quiet", "main")
    assert reason(planned(project)) == "branch_taken"
    assert git(project, "rev-parse", "bullpen/night/ann") == work


def test_a_branch_that_holds_nothing_of_its_own_is_moved_up_and_used(project: Path) -> None:
    git(project, "branch", "bullpen/night/ann")
    newest = commit(project, {"a.txt": "two\n"})
    workspace = planned(project)
    prepared(workspace)
    assert git(Path(workspace.path), "rev-parse", "HEAD") == newest


def test_submodules_come_from_the_users_own_copies_without_a_network(
    project: Path, tmp_path: Path
) -> None:
    inner = make_repository(tmp_path / "inner", {"inner.txt": "i\n"})
    library = make_repository(tmp_path / "library", {"lib.txt": "l\n"})
    add_submodule(library, inner, "deep/inner")
    add_submodule(project, library, "deps/lib")
    git(project, "submodule", "update", "--quiet", "--init", "--recursive")
    unused = make_repository(tmp_path / "unused")
    add_submodule(project, unused, "deps/unused")
    git(project, "submodule", "--quiet", "deinit", "--force", "deps/unused")
    for source in (inner, library, unused):
        source.rename(source.with_name(f"{source.name}-away"))
    before = belongings(project)
    workspace = planned(project)
    prepared(workspace)
    tree = Path(workspace.path)
    assert (tree / "deps/lib/lib.txt").read_text() == "l\n"
    assert (tree / "deps/lib/deep/inner/inner.txt").read_text() == "i\n"
    assert list((tree / "deps/unused").iterdir()) == []
    assert git(tree, "status", "--porcelain") == ""
    assert git(tree / "deps/lib", "remote", "get-url", "origin") == str(library)
    assert belongings(project) == before


def test_a_submodule_that_lacks_its_commit_is_refused(project: Path, tmp_path: Path) -> None:
    library = make_repository(tmp_path / "library")
    add_submodule(project, library, "lib")
    newer = commit(library, {"a.txt": "newer\n"})
    git(project, "update-index", "--cacheinfo", f"160000,{newer},lib")
    git(project, "commit", "--quiet", "-m", "use a commit that is not fetched")
    with pytest.raises(Refused, match=newer[:12]) as refused:
        planned(project, dirty="leave")
    assert refused.value.reason == "submodule_missing"


def test_a_repository_inside_that_nobody_names_is_refused(project: Path) -> None:
    inside = make_repository(project / "vendored")
    git(project, "update-index", "--add", "--cacheinfo", f"160000,{_head(inside)},vendored")
    git(project, "commit", "--quiet", "-m", "a repository in a repository")
    with pytest.raises(Refused, match="gitmodules") as refused:
        planned(project)
    assert refused.value.reason == "submodule_missing"


def _head(where: Path) -> str:
    return git(where, "rev-parse", "HEAD")


def test_a_required_filter_that_fails_leaves_nothing(project: Path) -> None:
    commit(project, {".gitattributes": "*.enc filter=lock\n", "secret.enc": "x\n"})
    git(project, "config", "filter.lock.smudge", "echo no key >&2; false")
    git(project, "config", "filter.lock.required", "true")
    with pytest.raises(GitFailed, match="lock"):
        prepared(planned(project, dirty="leave"))
    assert nothing_is_left(project)


def test_a_sparse_tree_gives_sparse_trees(project: Path) -> None:
    commit(project, {"far/away.txt": "x\n", "near/by.txt": "y\n"})
    make_sparse(project, "near")
    before = belongings(project)
    workspace = planned(project)
    prepared(workspace)
    assert set(files_below(Path(workspace.path))) == {"a.txt", "near/by.txt"}
    assert git(Path(workspace.path), "status", "--porcelain") == ""
    assert belongings(project) == before


def test_settings_of_a_single_tree_are_not_turned_on_for_the_repository(project: Path) -> None:
    prepared(planned(project))
    assert "worktreeConfig" not in (project / ".git" / "config").read_text()


def test_a_shallow_repository_gives_trees(project: Path, tmp_path: Path) -> None:
    commit(project, {"a.txt": "two\n"})
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{project}", "shallow")
    workspace = planned(tmp_path / "shallow")
    prepared(workspace)
    assert (Path(workspace.path) / "a.txt").read_text() == "two\n"


def test_several_remotes_are_no_matter_for_a_tree(project: Path, tmp_path: Path) -> None:
    add_remote(project, "up", tmp_path / "up.git")
    add_remote(project, "down", tmp_path / "down.git")
    before = belongings(project)
    assert prepared(planned(project)).made
    assert belongings(project) == before


@pytest.mark.parametrize("name", ["with space", "ünï-ço∂é", "line\nbreak", "quo'te\"s"])
def test_trees_are_made_below_odd_paths(tmp_path: Path, name: str) -> None:
    odd = make_repository(tmp_path / name / "project", {"in side/file": "x\n"})
    workspace = planned(odd / "in side")
    assert Path(prepared(workspace).cwd, "file").read_text("utf-8") == "x\n"
    assert not prepared(workspace).made
    shutil.rmtree(workspace.path)
    assert prepared(workspace).made


def test_the_users_hook_runs_once_when_a_tree_is_new(project: Path, tmp_path: Path) -> None:
    log = tmp_path / "hooked"
    add_hook(project, "post-checkout", f'echo "$1 $2 $3 $(pwd)" >> {log}; echo made > from-hook')
    workspace = planned(project)
    prepared(workspace)
    zeros, head = "0" * 40, _head(project)
    assert log.read_text() == f"{zeros} {head} 1 {workspace.path}\n"
    prepared(workspace)
    shutil.rmtree(workspace.path)
    prepared(workspace)
    shutil.rmtree(workspace.path)
    git(project, "worktree", "prune")
    prepared(workspace)
    assert len(log.read_text().splitlines()) == 1


def test_a_hook_that_fails_is_a_failed_tree_and_leaves_nothing(project: Path) -> None:
    add_hook(project, "post-checkout", "touch debris; echo not today >&2; exit 3")
    with pytest.raises(Refused, match="not today") as refused:
        prepared(planned(project))
    assert refused.value.reason == "hook_failed"
    assert nothing_is_left(project)


def test_no_other_hook_of_the_user_is_run(project: Path, tmp_path: Path) -> None:
    for name in ("reference-transaction", "post-index-change", "pre-commit"):
        add_hook(project, name, f"echo {name} >> {tmp_path / 'ran'}")
    prepared(planned(project))
    assert not (tmp_path / "ran").exists()


def test_twenty_trees_can_be_made_at_once(project: Path) -> None:
    names = [f"agent-{number}" for number in range(20)]

    def one(name: str) -> Prepared:
        return prepared(planned(project, name), name)

    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(one, names))
    assert all(each.made for each in found)
    assert len({each.env["BULLPEN_PORT"] for each in found}) == 20
    assert len({each.env["TMPDIR"] for each in found}) == 20
    assert git(project, "worktree", "list", "--porcelain").count("worktree ") == 21
    for each in found:
        assert git(Path(each.cwd), "status", "--porcelain") == ""


def test_two_who_prepare_the_same_tree_at_once_get_the_same_one(project: Path) -> None:
    workspace = planned(project, setup="echo x >> set-up-count")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: prepared(workspace), range(4)))
    assert sorted(each.made for each in found) == [False, False, False, True]
    assert (Path(workspace.path) / "set-up-count").read_text() == "x\n"


def test_waiting_for_a_repository_that_is_busy_has_an_end(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        locked(project / ".git" / "bullpen.lock", "it"),
        pytest.raises(Unavailable, match=r"using this for 0\.2 s"),
        locked(project / ".git" / "bullpen.lock", "this", wait_s=0.2),
    ):
        pass


def test_the_directory_of_an_agent_that_leads_out_of_its_tree_is_refused(
    project: Path, tmp_path: Path
) -> None:
    workspace = planned(project / "src")
    prepared(workspace)
    (tmp_path / "outside").mkdir()
    shutil.rmtree(Path(workspace.path, "src"))
    Path(workspace.path, "src").symlink_to(tmp_path / "outside")
    assert reason(workspace) == "leads_out"


def test_the_directory_of_an_agent_that_it_removed_is_there_again(project: Path) -> None:
    workspace = planned(project / "src")
    prepared(workspace)
    shutil.rmtree(Path(workspace.path, "src"))
    assert Path(prepared(workspace).cwd).is_dir()


def test_a_shared_tree_is_left_as_it_is(project: Path) -> None:
    before = belongings(project)
    workspace = plan("shared", project / "src", team="night", agent="ann")
    found = prepared(workspace)
    assert (found.cwd, found.made) == (str(project / "src"), False)
    assert found.env["BULLPEN_WORKSPACE"] == str(project)
    other = prepare(workspace, team="night", agent="bob", owner=OWNER)
    assert other.env["BULLPEN_PORT"] != found.env["BULLPEN_PORT"]
    assert belongings(project) == before


def test_a_mark_that_cannot_be_read_is_not_taken_for_none(project: Path) -> None:
    workspace = planned(project)
    prepared(workspace)
    mark = project / ".git" / "worktrees" / "ann" / "bullpen.json"
    mark.write_text("{", "utf-8")
    with pytest.raises(Unavailable, match=r"bullpen\.json"):
        prepared(workspace)
    assert claim_of(project / ".git", "night", "ann") is not None


_FULL = """
import sys
from pathlib import Path
from bullpen.errors import Unavailable
from bullpen.workspace.trees.tree import plan, prepare
root = Path(sys.argv[2])
found = plan("worktree", Path(sys.argv[1]), team="night", agent="ann", root=root)
try:
    prepare(found, team="night", agent="ann", owner="o")
except Unavailable as error:
    print("NO ROOM" if "no disk space" in str(error) else error)
    print(sorted(str(each.relative_to(root)) for each in root.rglob("*") if each.is_file()))
"""


def test_a_full_disk_is_said_and_nothing_half_made_is_left(project: Path, tmp_path: Path) -> None:
    commit(project, {f"big{number}": str(number) * 200_000 for number in range(9)})
    root = tmp_path / "small"
    root.mkdir()
    mount = 'mount -t tmpfs -o size=600k none "$3" && exec "$0" -c "$1" "$2" "$3"'
    words = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        mount,
        sys.executable,
        _FULL,
        str(project),
        str(root),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if "NO ROOM" not in done.stdout and ("unshare" in done.stderr or "mount:" in done.stderr):
        pytest.skip("a small disk needs the right to mount one")
    assert done.stdout.splitlines() == ["NO ROOM", "[]"], done.stderr
    assert nothing_is_left(project)


def test_a_tree_with_an_index_is_never_filled_again(project: Path) -> None:
    """Even if its mark says so: somebody may have worked in it."""
    workspace = planned(project)
    prepared(workspace)
    tree = Path(workspace.path)
    write(tree, {"a.txt": "half done\n"})
    mark = mark_of(tree)
    assert mark is not None
    put_mark(git_dir(tree), mark.evolve(todo=["files", "modules", "hook", "setup"]))
    prepared(workspace)
    assert (tree / "a.txt").read_text() == "half done\n"
