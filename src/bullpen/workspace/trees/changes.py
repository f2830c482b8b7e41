"""What changed in a worktree, or between two commits, as git diffs of bounded size. Reads only.

Everything here blocks: call it from a thread.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bullpen.protocol.agent import Workspace
from bullpen.workspace.git.run_git import Git
from bullpen.workspace.trees.current_task import At

LOOK_S = 60.0
"""Time limit of each git command here: a person waits for it."""

FILES_MAX = 300
FILE_LINES_MAX = 5_000
LINES_MAX = 20_000

# Larger files are not compared, whatever the repository says. The other settings of a user or a
# repository that change the format of a diff are overridden too.
_PLAIN = ("-c", "core.bigFileThreshold=1m", "-c", "core.quotePath=true", "--literal-pathspecs")
_FORMAT = (
    "--no-color", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty",
    "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/", "--no-relative",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A changed file with the numbers of its lines; None for a binary file."""

    path: str
    added: int | None
    removed: int | None


@dataclass(frozen=True, slots=True)
class TreeChanges:
    """The changes since a commit: all files, and the diff of those that are not too long."""

    base: str
    files: tuple[ChangedFile, ...]
    diff: str
    # Files in no commit and no index, which have no diff.
    untracked: tuple[str, ...] = ()


def changes_in_tree(tree: Path, base: str) -> TreeChanges:
    """Return what is different in a worktree from a commit, uncommitted and new files included.

    Raises:
        GitFailed: git fails, for example because the commit is not there.
    """
    git = _looking(tree)
    commit = git("rev-parse", "--verify", "--end-of-options", f"{base}^{{commit}}")
    found = _changes(git, ("diff",), commit, (commit,))
    untracked = git.lines("ls-files", "-z", "--others", "--exclude-standard", seconds=LOOK_S)
    return TreeChanges(commit, found.files, found.diff, tuple(untracked))


def changes_between(repository: Path, base: str, commit: str) -> TreeChanges:
    """Return what is different between two commits. Raises GitFailed."""
    git = _looking(repository)
    return _changes(git, ("diff-tree", "-r"), base, (base, commit))


def branch_point(tree: Path, workspace: Workspace | None, at: At | None) -> str | None:
    """Return the commit that the work in an agent's own worktree started from, if it is known."""
    git = _looking(tree)
    names = [] if at is None else [at.target]
    if workspace is not None and workspace.base is not None:
        base = workspace.base
        names += [f"refs/heads/{base}", f"refs/remotes/origin/{base}", base]
    for name in names:
        ran = git.run("merge-base", "--end-of-options", "HEAD", name)
        if ran.ok and ran.out.strip():
            return ran.out.strip()
    return None if at is None else at.base


def commit_at(tree: Path, time: str) -> str | None:
    """Return the commit that was checked out at a time, as git's own log of HEAD says.

    None if it does not say, or if the work since then does not build on that commit.
    """
    git = _looking(tree)
    found = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"HEAD@{{{time}}}")
    commit = found.out.strip()
    if not found.ok or not commit:
        return None
    is_below = git.run("merge-base", "--is-ancestor", commit, "HEAD").ok
    return commit if is_below else None


def _looking(where: Path) -> Git:
    # The index is the agent's or the user's: git must not rewrite it. Nobody's refs may make git
    # show other content than the objects have.
    return Git(where, {"GIT_OPTIONAL_LOCKS": "0", "GIT_GRAFT_FILE": os.devnull})


def _changes(git: Git, verb: Sequence[str], base: str, ends: Sequence[str]) -> TreeChanges:
    rows = git.lines(*_PLAIN, *verb, *_FORMAT, "--numstat", "-z", *ends, "--", seconds=LOOK_S)
    files = tuple(_counted(row) for row in rows)
    shown = _shown(files)
    diff = ""
    if shown:
        paths = [f.path for f in shown]
        diff = git(*_PLAIN, *verb, "-p", "-U3", *_FORMAT, *ends, "--", *paths, seconds=LOOK_S)
    return TreeChanges(base, files, diff)


def _counted(row: str) -> ChangedFile:
    added, removed, path = ([*row.split("\t", 2), "", ""])[:3]
    try:
        return ChangedFile(path, int(added), int(removed))
    except ValueError:
        return ChangedFile(path, None, None)


def _shown(files: Sequence[ChangedFile]) -> list[ChangedFile]:
    """The files whose diff is asked for: not too many, not too long."""
    shown: list[ChangedFile] = []
    lines = 0
    for file in files[:FILES_MAX]:
        size = (file.added or 0) + (file.removed or 0)
        if size <= FILE_LINES_MAX and lines + size <= LINES_MAX:
            lines += size
            shown.append(file)
    return shown
