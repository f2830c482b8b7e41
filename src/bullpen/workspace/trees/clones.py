"""Clones: separate repositories, for agents that run where the user's is not."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from pathlib import Path

from bullpen.errors import Refused, Unavailable
from bullpen.protocol.agent import Workspace
from bullpen.workspace.git.marks import (
    TreeMark,
    Who,
    mark_in,
    put_mark,
    refuse_others,
    write_errors,
)
from bullpen.workspace.git.repository import commit_of
from bullpen.workspace.git.run_git import TREE_S, Git, GitFailed
from bullpen.workspace.trees.setup import no_room
from bullpen.workspace.trees.worktrees import Tree, path_taken

_SPARSE = ("core.sparseCheckout", "core.sparseCheckoutCone")


def obtain(workspace: Workspace, who: Who, held: int) -> Tree:
    """Return the clone of an agent: the existing one, else a new one without files.

    `held` is the lock of the worktree.

    Raises:
        Refused: something else is in its place (tree_taken, path_taken), or its base is missing
            (base_missing).
        Unavailable: it cannot be created.
    """
    path = Path(workspace.path)
    for left in path.parent.glob(f"{glob.escape(_aside(path))}*"):
        # Left incomplete by a killed process: nobody else uses this place.
        shutil.rmtree(left, ignore_errors=True)
    if os.path.lexists(path):
        own = path / ".git"
        mark = None if path.is_symlink() or own.is_symlink() else mark_in(own)
        if mark is not None:
            refuse_others(mark.who, who, f"The clone at {path}")
            return Tree(path, own, mark)
        if path.is_symlink() or not path.is_dir() or os.listdir(path):
            raise path_taken(path, "it is not a clone of this agent")
    return _made(workspace, path, who, held)


def lock_of(path: Path) -> Path:
    """Return the lock that is held while the clone at a path is prepared."""
    return path.parent / f"+{path.name}.lock"


def undo(tree: Tree) -> None:
    """Remove a clone that could not be filled."""
    shutil.rmtree(tree.path, ignore_errors=True)


def _aside(path: Path) -> str:
    return f"+{path.name}.making."


def _made(workspace: Workspace, path: Path, who: Who, held: int) -> Tree:
    # Created aside and then moved in one step: whenever this is killed, what is there is complete
    # and marked.
    mark = TreeMark.new(
        owner=who.owner,
        team=who.team,
        agent=who.agent,
        kind="clone",
        todo=["files", "modules", "hook", "setup"],
    )
    try:
        with (
            write_errors(path),
            tempfile.TemporaryDirectory(prefix=_aside(path), dir=path.parent) as aside,
        ):
            made = Path(aside, path.name)
            _clone(workspace, made, held)
            put_mark(made / ".git", mark)
            os.rename(made, path)
    except GitFailed as error:
        raise no_room(error, path) from None
    return Tree(path, path / ".git", mark, made=True)


def _clone(workspace: Workspace, made: Path, held: int) -> None:
    assert workspace.branch is not None and workspace.base is not None
    source = workspace.repository
    local = Path(source).is_absolute()
    # A credential helper of a remote may run for long: it must not hold the lock.
    git = Git(made.parent, keep=(held,) if local else ())
    words = ("clone", "--quiet", "--no-checkout", "--origin", "origin", "--", source, str(made))
    git(*words, seconds=TREE_S)
    base = _base(made, workspace.base)
    if base is None:
        raise Refused(
            f"{source} has no branch or commit {workspace.base!r}.",
            reason="base_missing",
            remedy="Push it there, or choose another base.",
        )
    if local:
        _be_sparse_as(Path(source), made)
    git.at(made)("update-ref", f"refs/heads/{workspace.branch}", base)
    git.at(made)("symbolic-ref", "HEAD", f"refs/heads/{workspace.branch}")


def _base(made: Path, named: str) -> str | None:
    """Return the commit of a branch of the source, or the one that was named."""
    remote = Git(made).run(
        "rev-parse", "--verify", "--quiet", f"refs/remotes/origin/{named}^{{commit}}"
    )
    return remote.out.strip() if remote.ok else commit_of(made, named)


def _be_sparse_as(source: Path, made: Path) -> None:
    """Check out the same folders as the user's sparse checkout."""
    users, git = Git(source), Git(made)
    if users.run("config", "--type=bool", "core.sparseCheckout").out.strip() != "true":
        return
    for name in _SPARSE:
        value = users.run("config", "--type=bool", name).out.strip()
        if value:
            git("config", name, value)
    patterns = Path(
        users("rev-parse", "--path-format=absolute", "--git-path", "info/sparse-checkout")
    )
    if not patterns.exists():
        raise Unavailable(
            f"{source} is a sparse checkout, but {patterns} is missing.",
            remedy="Run `git sparse-checkout reapply` in your checkout.",
        )
    own = made / ".git" / "info" / "sparse-checkout"
    own.parent.mkdir(exist_ok=True)
    shutil.copyfile(patterns, own)
