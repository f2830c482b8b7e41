"""Reads a repository: its top, its commit and its worktrees. Changes nothing."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bullpen.errors import Refused, Unavailable
from bullpen.workspace.git.run_git import Git, GitFailed

_GIT_MIN = (2, 38)
"""The first git version that can do everything this package needs."""

_KIND = ("--is-bare-repository", "--is-inside-work-tree")
_PATHS = ("--show-toplevel", "--git-common-dir", "--absolute-git-dir")
_VERSION = re.compile(r"git version (\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository, seen from one of its worktrees."""

    # The top of that worktree, and the git dir that all worktrees share.
    top: Path
    common: Path
    # The commit that is checked out, and its branch unless the head is detached.
    head: str
    branch: str | None
    # The git dir of that worktree alone.
    own: Path


def repository_at(cwd: Path) -> Repository:
    """Return the repository that a directory is in.

    Raises:
        Refused: there is none (no_repository), it has no files (bare_repository), or no commits
            (no_commits).
        Unavailable: there is no such directory, git is missing or too old, or it fails.
    """
    _refuse_an_old_git()
    git = Git(cwd)
    # Asked all at once, because every question starts a process.
    said = git.run("rev-parse", "--path-format=absolute", *_KIND, *_PATHS)
    if "not a git repository" in said.err and not said.out:
        raise Refused(
            f"{cwd} is not in a git repository.",
            reason="no_repository",
            remedy="Run `git init` and commit the files, or let agents share the directory.",
        )
    bare, inside, *paths = (said.out.removesuffix("\n") + "\n").split("\n", 2)
    if (bare, inside) in {("true", "false"), ("false", "false")}:
        raise Refused(
            f"{cwd} is in a bare git repository.",
            reason="bare_repository",
            remedy="Start in a worktree of it: git worktree add PATH BRANCH",
        )
    if not said.ok:
        raise GitFailed(("rev-parse",), said.code, said.err, str(cwd))
    top, common, own = _three("".join(paths).removesuffix("\n"), git)
    head = git.run("rev-parse", "--quiet", "HEAD^{commit}", "--symbolic-full-name", "HEAD")
    if not head.ok:
        raise Refused(
            f"The repository at {cwd} has no commits.",
            reason="no_commits",
            remedy="Commit what the agents should start with.",
        )
    commit, name = head.out.split()
    branch = name.removeprefix("refs/heads/") if name.startswith("refs/heads/") else None
    return Repository(Path(top), Path(common), commit, branch, Path(own))


def _three(said: str, git: Git) -> list[str]:
    found = said.split("\n")
    if len(found) == len(_PATHS):
        return found
    # A path contains a newline: ask one by one.
    return [git("rev-parse", "--path-format=absolute", word) for word in _PATHS]


def superproject(top: Path) -> Path | None:
    """Return the top of the worktree that this one is a submodule of."""
    # Only then is its git dir elsewhere.
    if not (top / ".git").is_file():
        return None
    above = Git(top)("rev-parse", "--show-superproject-working-tree")
    return Path(above) if above else None


def common_dir(tree: Path) -> Path:
    """Return the git dir that all worktrees of a repository share, seen from one of them."""
    return Path(Git(tree)("rev-parse", "--path-format=absolute", "--git-common-dir"))


def git_dir(tree: Path) -> Path:
    """Return the git dir of one worktree."""
    return Path(Git(tree)("rev-parse", "--absolute-git-dir"))


def users_hooks(tree: Path) -> Path | None:
    """Return the folder of hooks that the user configured for all repositories, or None."""
    for scope in ("--global", "--system"):
        ran = Git(tree).run("config", scope, "--type=path", "--get", "core.hooksPath")
        if ran.ok and os.path.isabs(folder := ran.out.removesuffix("\n")):
            return Path(folder)
    return None


def main_top(repository: Repository) -> Path:
    """Return the top of the main worktree; for a bare repository with worktrees, its path."""
    if repository.own == repository.common:
        return repository.top
    common = repository.common
    return common.parent if common.name == ".git" else common


def is_changed(top: Path) -> list[str]:
    """Return the uncommitted paths in a worktree: staged, unstaged or new, but not ignored."""
    # Without the optional lock, git does not rewrite the index, which is the user's.
    git = Git(top).with_env(GIT_OPTIONAL_LOCKS="0")
    return [line[3:] for line in git.lines("status", "--porcelain", "-z", "--no-renames")]


def checkout_of(tree: Path, branch: str) -> Path | None:
    """Return the worktree of the same repository that has a branch checked out, or None."""
    path = None
    for line in Git(tree).lines("worktree", "list", "--porcelain", "-z"):
        if line.startswith("worktree "):
            path = Path(line.removeprefix("worktree "))
        elif line == f"branch refs/heads/{branch}":
            return path
    return None


def commit_of(tree: Path, name: str, *, branch: bool = False) -> str | None:
    """Return the commit of a local branch or another name; None if there is none.

    With `branch`, only a branch is meant.
    """
    for each in [f"refs/heads/{name}", *([] if branch else [name])]:
        ran = Git(tree).run(
            "rev-parse", "--verify", "--quiet", "--end-of-options", each + "^{commit}"
        )
        if ran.ok:
            return ran.out.strip()
    return None


_UNFINISHED = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "sequencer": "cherry-pick",
    "BISECT_LOG": "bisect",
}


def unfinished(git_directory: Path) -> list[str]:
    """Return the operations that were started in a worktree but not finished, such as a rebase."""
    found = [what for name, what in _UNFINISHED.items() if os.path.lexists(git_directory / name)]
    return list(dict.fromkeys(found))


@lru_cache(maxsize=1)
def _refuse_an_old_git() -> None:
    said = Git(Path("/"))("version")
    found = _VERSION.match(said)
    if found and tuple(int(part) for part in found.groups()) < _GIT_MIN:
        raise Unavailable(
            f"Worktrees for agents need git {_GIT_MIN[0]}.{_GIT_MIN[1]} or newer, not {said}.",
            remedy="Install a newer git.",
        )
