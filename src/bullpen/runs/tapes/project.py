"""The project of a replay: a copy in a folder of its own, at the commit of the tape."""

from __future__ import annotations

import shutil
from pathlib import Path

from bullpen.errors import Unavailable
from bullpen.workspace.git.run_git import TREE_S, Git

_GIT_S = 60.0
_FILES_MAX = 20_000


def copy_project(cwd: Path, to: Path, base: str | None) -> tuple[Path, str | None]:
    """Copy a project to a new folder; returns where it is there, and what to tell about it.

    A git repository is cloned, at the commit `base` if it has that one. Raises Unavailable.
    """
    git = Git(cwd)
    top = git.run("rev-parse", "--show-toplevel", seconds=_GIT_S)
    head = git.run("rev-parse", "--verify", "--quiet", "HEAD", seconds=_GIT_S)
    if not (top.ok and head.ok):
        _copy(cwd, to)
        return to, None if base is None else f"{cwd} has no commit; its files were copied."
    known = base is not None and git.run("cat-file", "-e", f"{base}^{{commit}}").ok
    at = base if known and base is not None else head.out.strip()
    branch = git.run("symbolic-ref", "--short", "--quiet", "HEAD").out.strip() or "main"
    root = top.out.strip()
    Git(cwd)("clone", "--quiet", "--no-checkout", "--no-local", root, str(to), seconds=TREE_S)
    there = Git(to)
    there("checkout", "--quiet", "-B", branch, at, seconds=TREE_S)
    for name in ("user.name", "user.email"):
        found = git.run("config", "--get", name)
        if found.ok:
            there("config", name, found.out.strip())
    project = to / cwd.resolve().relative_to(Path(root).resolve())
    if not project.is_dir():
        raise Unavailable(
            f"The directory {cwd} is not in the commit {at[:12]}.",
            remedy="Name the directory of the project with --cwd.",
        )
    if known or base is None:
        return project, None
    words = f"The commit {base[:12]} of the tape is not in {root}; replaying on {at[:12]}."
    return project, words


def _copy(cwd: Path, to: Path) -> None:
    """Copy the files of a folder that is no repository. Raises Unavailable."""
    for count, _ in enumerate(cwd.rglob("*"), 1):
        if count > _FILES_MAX:
            raise Unavailable(
                f"{cwd} has more than {_FILES_MAX:,} files, too many to copy for a replay.",
                remedy="Name the directory of the project with --cwd.",
            )
    try:
        shutil.copytree(cwd, to, symlinks=True)
    except (OSError, shutil.Error) as error:
        raise Unavailable(
            f"Cannot copy {cwd} for the replay: {error}", remedy="Check its permissions."
        ) from error
