"""What a repository is: where its top is, what it stands at, which trees it has. Only looks."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bullpen.errors import Refused, Unavailable
from bullpen.workspace.git import Git, GitFailed

_GIT_MIN = (2, 38)
"""The first version that can do all that this package asks of it."""

_KIND = ("--is-bare-repository", "--is-inside-work-tree")
_PATHS = ("--show-toplevel", "--git-common-dir", "--absolute-git-dir")
_VERSION = re.compile(r"git version (\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository, seen from one of its trees."""

    # The top of that tree, and what all trees of the repository have in common.
    top: Path
    common: Path
    # The commit that is checked out, and its branch unless the head is detached.
    head: str
    branch: str | None
    # What git keeps about that tree alone.
    own: Path


@dataclass(frozen=True, slots=True)
class ListedTree:
    """A tree that a repository knows. `locked` is the reason that was given, perhaps an empty one.

    `head` is empty if the repository is bare.
    """

    path: Path
    head: str
    branch: str | None
    locked: str | None
    prunable: bool


def repository_at(cwd: Path) -> Repository:
    """The repository that a directory lies in.

    Raises:
        Refused: there is none (no_repository), none with files (bare_repository), or none in which
            anything was committed (no_commits).
        Unavailable: there is no such directory, git is missing or too old, or it fails.
    """
    _refuse_an_old_git()
    git = Git(cwd)
    # Asked all at once, because every question is a process of its own.
    said = git.run("rev-parse", "--path-format=absolute", *_KIND, *_PATHS)
    if "not a git repository" in said.err and not said.out:
        raise Refused(
            f"{cwd} is in no git repository.",
            reason="no_repository",
            remedy="Run: git init, and commit what is there; or let agents share the directory.",
        )
    bare, inside, *paths = (said.out.removesuffix("\n") + "\n").split("\n", 2)
    if (bare, inside) in {("true", "false"), ("false", "false")}:
        raise Refused(
            f"{cwd} is in a git repository without files of its own.",
            reason="bare_repository",
            remedy="Start in a tree that is checked out of it: git worktree add PATH BRANCH",
        )
    if not said.ok:
        raise GitFailed(("rev-parse",), said.code, said.err, str(cwd))
    top, common, own = _three("".join(paths).removesuffix("\n"), git)
    head = git.run("rev-parse", "--quiet", "HEAD^{commit}", "--symbolic-full-name", "HEAD")
    if not head.ok:
        raise Refused(
            f"Nothing is committed yet in the repository at {cwd}.",
            reason="no_commits",
            remedy="Commit what the agents are to begin with.",
        )
    commit, name = head.out.split()
    branch = name.removeprefix("refs/heads/") if name.startswith("refs/heads/") else None
    return Repository(Path(top), Path(common), commit, branch, Path(own))


def _three(said: str, git: Git) -> list[str]:
    found = said.split("\n")
    if len(found) == len(_PATHS):
        return found
    # A path holds a newline: one question each.
    return [git("rev-parse", "--path-format=absolute", word) for word in _PATHS]


def superproject(top: Path) -> Path | None:
    """The top of the tree that this one is a submodule of."""
    # Only then its git directory lies elsewhere.
    if not (top / ".git").is_file():
        return None
    above = Git(top)("rev-parse", "--show-superproject-working-tree")
    return Path(above) if above else None


def common_dir(tree: Path) -> Path:
    """What all trees of a repository have in common, seen from one of them."""
    return Path(Git(tree)("rev-parse", "--path-format=absolute", "--git-common-dir"))


def git_dir(tree: Path) -> Path:
    """What git keeps about one tree."""
    return Path(Git(tree)("rev-parse", "--absolute-git-dir"))


def main_top(repository: Repository) -> Path:
    """The top of the repository's first tree; of a bare one with linked trees, where it lies."""
    if repository.own == repository.common:
        return repository.top
    common = repository.common
    return common.parent if common.name == ".git" else common


def is_changed(top: Path) -> list[str]:
    """The paths in a tree that are not committed: staged or not, or new; none that is ignored.

    Raises:
        GitFailed: git cannot tell.
    """
    # Without the optional lock it does not write the index anew: that is the user's.
    git = Git(top).with_env(GIT_OPTIONAL_LOCKS="0")
    return [line[3:] for line in git.lines("status", "--porcelain", "-z", "--no-renames")]


def trees(repository: Repository) -> list[ListedTree]:
    """All trees of a repository, also those whose folder is gone."""
    return trees_seen_from(repository.top)


def trees_seen_from(tree: Path) -> list[ListedTree]:
    """All trees of the repository of one of them."""
    found: list[dict[str, str]] = []
    for line in Git(tree).lines("worktree", "list", "--porcelain", "-z"):
        key, _, value = line.partition(" ")
        if key == "worktree":
            found.append({})
        found[-1][key] = value
    return [
        ListedTree(
            path=Path(each["worktree"]),
            head=each.get("HEAD", ""),
            branch=each["branch"].removeprefix("refs/heads/") if "branch" in each else None,
            locked=each.get("locked"),
            prunable="prunable" in each,
        )
        for each in found
    ]


def commit_of(tree: Path, name: str, *, branch: bool = False) -> str | None:
    """The commit that a local branch is at, or that another name means; None if there is none.

    With `branch` only a branch is meant.
    """
    for each in [f"refs/heads/{name}", *([] if branch else [name])]:
        ran = Git(tree).run(
            "rev-parse", "--verify", "--quiet", "--end-of-options", each + "^{commit}"
        )
        if ran.ok:
            return ran.out.strip()
    return None


def under_way(repository: Repository) -> str | None:
    """What the user has begun in a tree and not ended, such as a rebase; None if nothing."""
    signs = {
        "rebase-merge": "a rebase",
        "rebase-apply": "a rebase",
        "MERGE_HEAD": "a merge",
        "CHERRY_PICK_HEAD": "a cherry-pick",
        "REVERT_HEAD": "a revert",
        "BISECT_LOG": "a bisection",
    }
    return next(
        (what for name, what in signs.items() if os.path.lexists(repository.own / name)), None
    )


@lru_cache(maxsize=1)
def _refuse_an_old_git() -> None:
    said = Git(Path("/"))("version")
    found = _VERSION.match(said)
    if found and tuple(int(part) for part in found.groups()) < _GIT_MIN:
        raise Unavailable(
            f"This is {said}; trees for agents need {_GIT_MIN[0]}.{_GIT_MIN[1]} or newer.",
            remedy="Install a newer git.",
        )
