"""Where the parts of a worktree are: its files, its own git dir and the shared git dir."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from bullpen.errors import Refused
from bullpen.sandbox.guards import ITSELF
from bullpen.workspace.git.marks import MARK, read_errors
from bullpen.workspace.git.run_git import Git

# A linked worktree owns everything in its git dir except its location and temporary files.
_NOT_ITS_OWN = ("gitdir", "commondir", "locked", "bullpen*", "*.lock", "modules", "HEAD")

# A repository's main worktree owns only these: the rest is shared by all its worktrees.
_ITS_OWN = (
    "index", "sharedindex.*", "ORIG_HEAD", "*_HEAD", "MERGE_*", "AUTO_MERGE", "SQUASH_MSG",
    "BISECT_*", "rebase-merge", "rebase-apply", "sequencer", "config.worktree",
)  # fmt: skip
_ITS_OWN_BELOW = (
    "logs/HEAD", "logs/refs/bisect", "logs/refs/worktree", "logs/refs/rewritten",
    "refs/bisect", "refs/worktree", "refs/rewritten", "info/sparse-checkout",
)  # fmt: skip

# When a whole repository goes, everything goes except what commits lead to.
_NOT_OF_A_WHOLE = ("objects", "bullpen*", "*.lock")


@dataclass(frozen=True, slots=True)
class Layout:
    """The top of a worktree, its own git dir, and the git dir that it shares with others."""

    top: Path
    own: Path
    common: Path
    # The hash algorithm of the repository's objects.
    hash_name: str
    # Where the worktree was before it was moved aside; git dirs may still point there.
    stood: Path
    # What else git needs to find it.
    told: tuple[tuple[str, str], ...] = ()

    @property
    def git(self) -> Git:
        """Return git in this worktree, ignoring replaced objects."""
        plain = {"GIT_OPTIONAL_LOCKS": "0"}
        return Git(self.top, {**plain, **dict(self.told)})

    @property
    def is_linked(self) -> bool:
        """Return whether its repository is elsewhere."""
        return self.own != self.common

    @property
    def filters_are_users(self) -> bool:
        """Return whether the filters of this worktree are the user's; an agent may have set others.

        A clone has its own settings, and a linked worktree may have some in addition to the user's.
        """
        if not self.is_linked and (self.own / MARK).exists():
            return False
        file = str(self.own / "config.worktree")
        own = ("config", "--file", file, "--get-regexp", r"^(filter|include|includeif)\.")
        return not (self.is_linked and os.path.lexists(file) and self.git.run(*own).code != 1)

    def state(self, *, whole: bool) -> list[str]:
        """Return the files in its git dir that would be lost with it, relative to the git dir.

        With `whole`, the repository itself goes: everything except its objects and modules.
        """
        return sorted(self._state(whole=whole))

    def _state(self, *, whole: bool) -> Iterator[str]:
        if whole:
            yield from _below(self.own, self.own, (*_NOT_OF_A_WHOLE, "modules"))
        elif self.is_linked:
            yield from _below(self.own, self.own, _NOT_ITS_OWN)
        else:
            for name in _names_in(self.own):
                if any(fnmatchcase(name, each) for each in _ITS_OWN):
                    yield from _file_or_below(self.own, self.own / name)
            for name in _ITS_OWN_BELOW:
                yield from _file_or_below(self.own, self.own / name)


def layout_of(tree: Path, *, stood: Path | None = None) -> Layout:
    """Return the layout of a worktree. `stood` is where it was, if it was moved aside.

    Raises:
        Refused: there is no worktree at exactly this path (no_tree).
    """
    if not tree.is_dir():
        raise _no_tree(tree)
    told = _told(Git(tree), "--show-toplevel", "--git-dir", "--git-common-dir")
    # Without its own git dir it would look like a folder of the repository around it.
    if told is None or not _is_same(Path(told[0]), tree):
        raise _no_tree(tree)
    top, own, common = tree.resolve(), Path(told[1]).resolve(), Path(told[2]).resolve()
    before = top if stood is None else stood.parent.resolve() / stood.name
    return Layout(top, own, common, told[3], before)


def layout_of_module(module: Path, own: Path) -> Layout:
    """Return the layout of a submodule, whatever its git dir says. Raises Refused (no_tree)."""
    top, own = module.resolve(), own.resolve()
    env = (("GIT_DIR", str(own)), ("GIT_WORK_TREE", str(top)))
    told = _told(Git(module, dict(env)))
    if told is None or not _is_its_own_common(own):
        raise _no_tree(module)
    return Layout(top, own, own, told[-1], top, env)


def _is_its_own_common(own: Path) -> bool:
    """Return whether a git dir does not use another for what worktrees share.

    A sandbox leaves a file that says just that: see `sandbox.guards`.
    """
    try:
        return (own / "commondir").read_bytes() == ITSELF
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _told(git: Git, *paths: str) -> list[str] | None:
    """Return some paths of a worktree and its hash, as git says; None if it is not a worktree."""
    ran = git.run("rev-parse", "--path-format=absolute", *paths, "--show-object-format")
    if not ran.ok:
        return None
    lines = ran.out.removesuffix("\n").split("\n")
    if len(lines) == len(paths) + 1:
        return lines
    # A path contains a newline.
    asked = [git("rev-parse", "--path-format=absolute", path) for path in paths]
    return [*asked, lines[-1]]


def repository_dir(repository: Path) -> Path:
    """Return the git dir shared by all worktrees of the repository at a path. It may be bare.

    Raises:
        Refused: there is no repository (no_repository).
    """
    ran = None
    if repository.is_dir():
        ran = Git(repository).run("rev-parse", "--path-format=absolute", "--git-common-dir")
    if ran is None or not ran.ok:
        raise Refused(
            f"There is no git repository at {repository}.",
            reason="no_repository",
            remedy="Name the directory of a git repository.",
        )
    return Path(ran.out.removesuffix("\n")).resolve()


def _no_tree(tree: Path) -> Refused:
    return Refused(
        f"{tree} is not the top of a git worktree.",
        reason="no_tree",
        remedy="Check its `.git`: it is missing or points to nothing.",
    )


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _names_in(folder: Path) -> list[str]:
    with read_errors(folder):
        try:
            return sorted(each.name for each in folder.iterdir())
        except FileNotFoundError:
            return []


def _file_or_below(root: Path, path: Path) -> Iterator[str]:
    if path.is_dir() and not path.is_symlink():
        yield from _below(root, path, ("*.lock",))
    elif path.is_file() or path.is_symlink():
        yield str(path.relative_to(root))


def _below(root: Path, folder: Path, but: tuple[str, ...]) -> Iterator[str]:
    """Return the files below a folder, except for these names in it."""
    for name in _names_in(folder):
        if not any(fnmatchcase(name, each) for each in but):
            yield from _file_or_below(root, folder / name)
