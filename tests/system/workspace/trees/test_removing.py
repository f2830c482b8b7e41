"""Trees are removed when nobody is in them and all that was in them is kept."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.errors import Refused
from bullpen.protocol.agent import Workspace
from bullpen.workspace.removal.inventory import trees_of_ours
from bullpen.workspace.removal.remove import Removed, remove
from bullpen.workspace.snapshots.save import saved
from bullpen.workspace.trees.occupants import in_use, read_lsof
from bullpen.workspace.trees.restore import restore
from bullpen.workspace.trees.set_aside import aside_of, done_with, hold
from bullpen.workspace.trees.tree import plan, prepare
from support.git.repositories import (
    add_hook,
    add_submodule,
    belongings,
    commit,
    files_below,
    git,
    make_repository,
    write,
)

TEAM, AGENT, OWNER = "night", "ann", "home/night"


@pytest.fixture
def workspace(project: Path) -> Workspace:
    """The tree of an agent, made."""
    return made(project)


def made(
    project: Path, agent: str = AGENT, kind: str = "worktree", owner: str = OWNER
) -> Workspace:
    tree = plan("clone" if kind == "clone" else "worktree", project, team=TEAM, agent=agent)
    prepare(tree, team=TEAM, agent=agent, owner=owner)
    return tree


def gone(tree: Workspace, agent: str = AGENT, owner: str = OWNER) -> Removed:
    return remove(tree, team=TEAM, agent=agent, owner=owner, why="a test")


def refusal(tree: Workspace, **more: str) -> Refused:
    with pytest.raises(Refused) as refused:
        gone(tree, **more)
    return refused.value


@pytest.fixture
def somebody() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that are ended with the test."""
    running: list[subprocess.Popen[bytes]] = []
    yield running
    for each in running:
        each.kill()
        each.wait(10)


def test_a_dirty_tree_is_saved_before_it_is_removed(
    project: Path, workspace: Workspace, tmp_path: Path
) -> None:
    before = belongings(project)
    tip = commit(Path(workspace.path), {"mine": "committed\n"})
    write(Path(workspace.path), {"a.txt": "changed\n"})
    removed = gone(workspace)
    assert not os.path.lexists(workspace.path) and not Path(workspace.path).parent.exists()
    assert belongings(project) == before
    assert git(project, "worktree", "list").count("\n") == 0
    assert removed.branch == workspace.branch
    assert git(project, "branch", "--list", "bullpen/*") == ""
    assert removed.saved is not None
    git(project, "prune", "--expire=now")
    again = restore(project, removed.saved.ref, tmp_path / "back").path
    assert (again / "a.txt").read_text() == "changed\n"
    assert git(again, "rev-parse", "HEAD") == tip
    assert gone(workspace) == Removed(Path(workspace.path), None, None)


def test_a_tree_with_nothing_of_its_own_leaves_nothing(project: Path, workspace: Workspace) -> None:
    removed = gone(workspace)
    assert removed.saved is None and removed.branch == workspace.branch
    assert saved(project) == [] and trees_of_ours(project) == []


def test_a_tree_with_a_submodule_is_kept_once_and_with_its_submodule_at_work(
    project: Path, tmp_path: Path
) -> None:
    add_submodule(project, make_repository(tmp_path / "module"), "mod")
    assert gone(made(project)).saved is None
    again = made(project)
    write(Path(again.path), {"mod/new": "x\n"})
    removed = gone(again)
    assert saved(project) == [removed.saved]
    assert removed.saved is not None
    back = restore(project, removed.saved.ref, tmp_path / "back").path
    assert git(back / "mod", "status", "--short") == "?? new"
    assert git(back, "status", "--short") == " ? mod"


@pytest.mark.parametrize("how", ["stands", "reads", "runs"])
def test_a_tree_that_a_process_is_in_is_not_touched(
    workspace: Workspace, somebody: list[subprocess.Popen[bytes]], how: str
) -> None:
    path = Path(workspace.path)
    write(path, {"new": "x\n"})
    if how == "stands":
        somebody.append(subprocess.Popen(["sleep", "60"], cwd=path / "src"))
    elif how == "reads":
        with open(path / "a.txt", "rb") as file:
            somebody.append(subprocess.Popen(["sleep", "60"], stdin=file, cwd="/"))
    else:
        (path / "sleeper").write_bytes(Path("/bin/sleep").read_bytes())
        (path / "sleeper").chmod(0o755)
        somebody.append(subprocess.Popen([str(path / "sleeper"), "60"], cwd="/"))
    before = files_below(path)
    error = refusal(workspace)
    assert error.reason == "tree_in_use"
    assert f"{somebody[0].pid} (" in error.message
    assert files_below(path) == before
    assert [user.pid for user in in_use(path)] == [somebody[0].pid]


def test_whoever_asks_from_inside_the_tree_is_in_it_too(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace.path)
    assert str(os.getpid()) in refusal(workspace).message


def test_somebody_who_comes_while_it_is_moved_aside_has_it_back(
    project: Path, workspace: Workspace, somebody: list[subprocess.Popen[bytes]]
) -> None:
    path, own = Path(workspace.path), project / ".git/worktrees/ann"
    write(path, {"new": "x\n"})
    before = files_below(path)
    # As a kill in the middle leaves it; some versions of git note where they last saw a tree.
    hold(own)
    os.rename(path, aside_of(path))
    (own / "gitdir").write_text(f"{aside_of(path)}/.git\n")
    somebody.append(subprocess.Popen(["sleep", "60"], cwd=aside_of(path)))
    assert refusal(workspace).reason == "tree_in_use"
    assert files_below(path) == before
    assert str(path) in git(project, "worktree", "list") and not (own / "locked").exists()


@pytest.mark.parametrize("state", ["held", "aside", "done", "deleted"])
def test_a_removal_that_was_cut_short_is_undone_by_the_next_start(
    project: Path, workspace: Workspace, state: str
) -> None:
    path, own = Path(workspace.path), project / ".git/worktrees/ann"
    write(path, {"new": "x\n"})
    hold(own)
    if state != "held":
        os.rename(path, aside_of(path) if state == "aside" else done_with(path))
    if state == "deleted":
        subprocess.run(["rm", "-r", str(done_with(path))], check=True, timeout=30)
    prepare(workspace, team=TEAM, agent=AGENT, owner=OWNER)
    assert git(path, "rev-parse", "--show-toplevel") == str(path)
    # What was to be deleted was kept before: the tree is made again.
    assert (path / "new").exists() == (state in ("held", "aside"))
    assert not (own / "locked").exists()
    gone(workspace)
    assert not done_with(path).exists() and not path.exists()


def test_a_locked_tree_stays_and_the_reason_is_told(project: Path, workspace: Workspace) -> None:
    git(project, "worktree", "lock", "--reason", "on my stick", workspace.path)
    error = refusal(workspace)
    assert error.reason == "tree_locked" and "on my stick" in error.message
    git(project, "worktree", "unlock", workspace.path)
    gone(workspace)


def test_only_trees_of_this_owner_are_removed(
    project: Path, workspace: Workspace, tmp_path: Path
) -> None:
    assert refusal(workspace, owner="other").reason == "tree_taken"
    assert refusal(workspace, agent="bob").reason == "tree_taken"
    shared = workspace.evolve(kind="shared", path=str(project))
    assert refusal(shared).reason == "own_tree"
    git(project, "worktree", "add", "--quiet", "-b", "users", str(tmp_path / "users"))
    make_repository(tmp_path / "else")
    for place in ("users", "else"):
        assert refusal(workspace.evolve(path=str(tmp_path / place))).reason == "not_ours"
        clone = workspace.evolve(path=str(tmp_path / place), kind="clone")
        assert refusal(clone).reason == "not_ours"
        assert (tmp_path / place / "a.txt").exists()


def test_a_link_in_the_place_of_a_tree_is_not_followed(
    project: Path, workspace: Workspace, tmp_path: Path
) -> None:
    git(project, "worktree", "add", "--quiet", "-b", "users", str(tmp_path / "users"))
    os.rename(workspace.path, tmp_path / "moved")
    for name in ("users", "moved"):
        Path(workspace.path).symlink_to(tmp_path / name)
        assert refusal(workspace).reason == "not_ours"
        assert (tmp_path / name / "a.txt").exists()
        Path(workspace.path).unlink()


def test_a_tree_with_anothers_tree_inside_stays(project: Path, workspace: Workspace) -> None:
    inside = Path(workspace.path) / "inside"
    git(project, "worktree", "add", "--quiet", "-b", "users", str(inside))
    error = refusal(workspace)
    assert error.reason == "worktree_inside" and str(inside) in error.message
    assert (inside / "a.txt").exists()


def test_what_is_mounted_in_a_tree_is_not_deleted(
    project: Path, workspace: Workspace, tmp_path: Path
) -> None:
    write(tmp_path / "precious", {"file": "precious\n"})
    (Path(workspace.path) / "here").mkdir()
    script = f"mount --bind '{tmp_path}/precious' '{workspace.path}/here' || exit 77; exec \"$@\""
    program = (
        "import sys\nfrom bullpen.errors import Refused\n"
        "from bullpen.protocol.agent import Workspace\n"
        "from bullpen.workspace.removal.remove import remove\n"
        f"tree = Workspace.parse({workspace.raw!r})\n"
        "try: remove(tree, team='night', agent='ann', owner='home/night', why='x')\n"
        "except Refused as error: print(error.reason)\n"
    )
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (tmp_path / "precious" / "file").read_text() == "precious\n"
    if ran.returncode == 77 or "unshare" in ran.stderr:
        pytest.skip("nothing can be mounted here")
    assert ran.stdout.strip() == "mount_inside", ran.stderr


def test_what_is_written_while_a_tree_is_removed_is_kept(
    project: Path, workspace: Workspace, tmp_path: Path, somebody: list[subprocess.Popen[bytes]]
) -> None:
    """Somebody outside writes one file after another by its path; each that was written is kept."""
    path, log = Path(workspace.path), tmp_path / "written"
    program = (
        "import sys, time\n"
        "for n in range(10**6):\n"
        "    time.sleep(0.003)\n"
        "    with open(f'{sys.argv[1]}/w{n}', 'w') as file: file.write(f'{n}\\n')\n"
        "    with open(sys.argv[2], 'a') as log: log.write(f'{n}\\n')\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", program, str(path), str(log)], cwd="/")
    somebody.append(writer)
    deadline = time.monotonic() + 60
    while not log.exists():
        assert time.monotonic() < deadline
    while path.exists():
        assert time.monotonic() < deadline
        try:
            gone(workspace)
        except Refused as error:
            assert error.reason == "tree_in_use"
    assert writer.wait(30) == 1  # there was no such folder any more
    written = {f"w{number}" for number in log.read_text().split()}
    kept = set()
    for row in saved(project):
        kept |= set(git(project, "ls-tree", "-r", "--name-only", row.commit).split("\n"))
    assert written <= kept, sorted(written - kept)[:5]


def test_a_folder_that_somebody_deleted_still_has_what_was_staged(
    project: Path, workspace: Workspace, tmp_path: Path
) -> None:
    path = Path(workspace.path)
    write(path, {"staged": "staged\n"})
    git(path, "add", "staged")
    subprocess.run(["rm", "-rf", str(path)], check=True, timeout=30)
    assert [tree.state for tree in trees_of_ours(project)] == ["without a folder"]
    removed = gone(workspace)
    assert removed.path == path
    assert removed.saved is not None
    again = restore(project, removed.saved.ref, tmp_path / "back").path
    assert git(again, "show", ":staged") == "staged"
    assert trees_of_ours(project) == []


def test_a_branch_that_is_checked_out_elsewhere_stays(
    project: Path, workspace: Workspace, tmp_path: Path
) -> None:
    commit(Path(workspace.path), {"mine": "x\n"})
    git(Path(workspace.path), "checkout", "--quiet", "--detach")
    git(project, "worktree", "add", "--quiet", str(tmp_path / "users"), str(workspace.branch))
    assert gone(workspace).branch is None
    assert git(tmp_path / "users", "status", "--short", "--branch") == f"## {workspace.branch}"


def test_a_clone_is_kept_in_the_repository_that_it_came_from(project: Path, tmp_path: Path) -> None:
    clone = made(project, kind="clone")
    path = Path(clone.path)
    before = belongings(project)
    mine = commit(path, {"mine": "x\n"})
    git(path, "tag", "-a", "mine", "-m", "a tag of its own")
    write(path, {"a.txt": "stashed\n"})
    git(path, "stash", "push", "--quiet")
    write(path, {"a.txt": "dirty\n"})
    refs = git(path, "for-each-ref")
    removed = gone(clone)
    assert removed.saved is not None and not path.exists()
    assert belongings(project) == before
    git(project, "prune", "--expire=now")
    again = restore(project, removed.saved.ref, tmp_path / "back").path
    assert git(again, "rev-parse", "HEAD") == mine
    assert git(again, "for-each-ref") == refs
    assert git(again, "show", "stash@{0}:a.txt") == "stashed"
    assert "a tag of its own" in git(again, "cat-file", "tag", "mine")
    assert (again / "a.txt").read_text() == "dirty\n"


@pytest.mark.parametrize("takes", [True, False])
def test_a_clone_of_a_url_is_pushed_there_or_stays(
    project: Path, tmp_path: Path, takes: bool
) -> None:
    git(project, "clone", "--quiet", "--bare", str(project), str(tmp_path / "far.git"))
    if not takes:
        add_hook(tmp_path / "far.git", "pre-receive", "echo not here >&2; exit 1")
    git(project, "remote", "add", "origin", f"file://{tmp_path}/far.git")
    git(project, "fetch", "--quiet", "origin")
    clone = plan("clone", project, team=TEAM, agent=AGENT, remote="origin")
    assert clone.repository.startswith("file://")
    prepare(clone, team=TEAM, agent=AGENT, owner=OWNER)
    write(Path(clone.path), {"a.txt": "dirty\n"})
    if takes:
        removed = gone(clone)
        assert removed.saved is not None and not Path(clone.path).exists()
        assert saved(tmp_path / "far.git") == [removed.saved]
    else:
        error = refusal(clone)
        assert error.reason == "nowhere_to_keep" and "not here" in error.message
        assert (Path(clone.path) / "a.txt").read_text() == "dirty\n"


def test_lsof_says_who_is_in_a_tree() -> None:
    first = b"p10\ncbash\nfcwd\nn/trees/ann\nf3\nn/else\n"
    said = first + b"p11\ncvi\nf4\nn/trees/ann/a\np12\ncx\nn/trees/ann2\n"
    assert [(user.pid, user.command) for user in read_lsof(said, Path("/trees/ann"))] == [
        (10, "bash"),
        (11, "vi"),
    ]
