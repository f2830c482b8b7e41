"""Whoever prepares a tree is killed with -9 at every call of git; the next one finishes it.

BULLPEN_TREE_KILLS=all kills at every call; CI kills only where something changes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bullpen.workspace.git.marks import put_mark
from bullpen.workspace.git.repository import git_dir
from bullpen.workspace.trees.tree import mark_of, plan, prepare
from support.git.repositories import add_hook, belongings, commit, git, write

pytestmark = pytest.mark.no_loss

CRASHING = Path(__file__).with_name("crashing.py")
WHERE = os.environ.get("BULLPEN_TREE_KILLS", "some")


@pytest.mark.parametrize("how", ["before", "after", "both", "beside"])
@pytest.mark.parametrize("kind", ["worktree", "clone"])
def test_a_tree_is_finished_by_the_next_whenever_its_maker_is_killed(
    project: Path, kind: str, how: str
) -> None:
    if how == "both":  # so many that git is not done with them at once
        commit(project, {f"many/{number}": "x\n" for number in range(500)})
    hooks = project.parent / "hooked"
    add_hook(project, "post-checkout", f'pwd >> "{hooks}"')
    before = belongings(project)
    done = subprocess.run(
        [sys.executable, str(CRASHING), str(project), kind, how, WHERE],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["killed"] for row in rows] == [False] + [True] * (len(rows) - 1)
    assert len(rows) > 3
    head = git(project, "rev-parse", "HEAD")
    for row in rows:
        tree = Path(row["path"])
        assert row["ready"], row
        assert git(tree, "rev-parse", "--show-toplevel") == str(tree)
        assert git(tree, "branch", "--show-current") == f"bullpen/night/{row['agent']}"
        assert git(tree, "rev-parse", "HEAD") == head
        assert git(tree, "status", "--porcelain") == " M a.txt\n?? set-up", row
        assert (tree / "a.txt").read_text() == "work\n"
        if kind == "worktree":
            assert str(tree) in hooks.read_text().splitlines()
    if kind == "worktree":
        assert (
            git(project, "worktree", "list").count("\n") == len(rows) + 1
        )  # and that of the first look
    folder = Path(rows[0]["path"]).parent
    assert not [each.name for each in folder.iterdir() if ".making" in each.name]
    assert belongings(project) == before


def test_what_a_git_left_that_was_killed_in_the_middle_is_no_hindrance(project: Path) -> None:
    workspace = plan("worktree", project, team="night", agent="ann")
    prepare(workspace, team="night", agent="ann", owner="home")
    tree = Path(workspace.path)
    own = git_dir(tree)
    mark = mark_of(tree)
    assert mark is not None
    put_mark(own, mark.evolve(todo=["files", "modules", "setup"]))
    (own / "index").rename(own / "index.lock")
    (tree / "a.txt").write_bytes(b"on")
    (tree / "src" / "b.py").unlink()
    write(tree, {"from elsewhere": "x\n"})
    prepare(workspace, team="night", agent="ann", owner="home")
    assert git(tree, "status", "--porcelain") == '?? "from elsewhere"'


_SLOW = "echo begin >> log; sleep 0.7; echo end >> log"
_PREPARE = """
import sys
import time
from pathlib import Path
from bullpen.workspace.trees.tree import plan, prepare
found = plan("worktree", Path(sys.argv[1]), team="night", agent="ann", setup=sys.argv[2])
prepare(found, team="night", agent="ann", owner="home")
"""


def test_a_set_up_whose_starter_was_killed_is_waited_for_before_it_runs_again(
    project: Path,
) -> None:
    workspace = plan("worktree", project, team="night", agent="ann", setup=_SLOW)
    log = Path(workspace.path) / "log"
    with subprocess.Popen([sys.executable, "-c", _PREPARE, str(project), _SLOW]) as first:
        deadline = time.monotonic() + 30
        while not log.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        first.kill()
    prepare(workspace, team="night", agent="ann", owner="home")
    assert log.read_text() == "begin\nend\n" * 2
