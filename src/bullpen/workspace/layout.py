"""Where the parts of one git tree lie: its files, what git keeps of it alone, and the rest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from bullpen.errors import Refused, Unavailable
from bullpen.workspace.git import Git
from bullpen.workspace.marks import MARK

# Of a linked tree all is its own but what ties it to its place, and what is ours or temporary.
_NOT_ITS_OWN = ("gitdir", "commondir", "locked", "bullpen*", "*.lock", "modules", "HEAD")

# Of a repository's first tree only these are: the rest belongs to all of its trees.
_ITS_OWN = (
    "index", "sharedindex.*", "ORIG_HEAD", "*_HEAD", "MERGE_*", "AUTO_MERGE", "SQUASH_MSG",
    "BISECT_*", "rebase-merge", "rebase-apply", "sequencer", "config.worktree",
)  # fmt: skip
_ITS_OWN_BELOW = (
    "logs/HEAD", "logs/refs/bisect", "logs/refs/worktree", "logs/refs/rewritten",
    "refs/bisect", "refs/worktree", "refs/rewritten", "info/sparse-checkout",
)  # fmt: skip

# With a whole repository goes all but what commits lead to.
_NOT_OF_A_WHOLE = ("objects", "bullpen*", "*.lock")

_UNDER_WAY = (
    "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "sequencer",
    "BISECT_LOG",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Layout:
    """The top of a tree, its own git dir, and the git dir that it shares with other trees."""

    top: Path
    own: Path
    common: Path
    # The hash that names the objects of the repository.
    hash_name: str
    # Where the tree stood before it was moved aside, to which git dirs may still point.
    stood: Path
    # What git must be told to find it, beside where it is.
    told: tuple[tuple[str, str], ...] = ()

    @property
    def git(self) -> Git:
        """Git in this tree, which shows each object as itself, whatever stands in its place."""
        plain = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_REPLACE_OBJECTS": "1"}
        return Git(self.top, {**plain, **dict(self.told)})

    @property
    def is_linked(self) -> bool:
        """Whether it is a tree of a repository that lies elsewhere."""
        return self.own != self.common

    @property
    def under_way(self) -> list[str]:
        """What was begun in this tree and is not done: a merge, a rebase and the like."""
        return [name for name in _UNDER_WAY if (self.own / name).exists()]

    @property
    def filters_are_users(self) -> bool:
        """Whether the filters of this tree are the user's: an agent may have set others itself.

        A clone has settings of its own, and a linked tree may have some beside the user's.
        """
        if not self.is_linked and (self.own / MARK).exists():
            return False
        file = str(self.own / "config.worktree")
        own = ("config", "--file", file, "--get-regexp", r"^(filter|include|includeif)\.")
        return not (self.is_linked and os.path.lexists(file) and self.git.run(*own).code != 1)

    def state(self, *, whole: bool) -> list[str]:
        """The files in its git dir that would be gone with it, relative to that.

        With `whole` the repository itself goes: then all but its objects and its modules.
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
    """Where the parts of a tree lie. `stood` is where it was, if it was moved aside.

    Raises:
        Refused: there is no tree at this path itself (no_tree).
    """
    if not tree.is_dir():
        raise _no_tree(tree)
    told = _told(Git(tree), "--show-toplevel", "--git-dir", "--git-common-dir")
    # Without a git dir of its own it would pass for a folder of whatever lies around it.
    if told is None or not _is_same(Path(told[0]), tree):
        raise _no_tree(tree)
    top, own, common = tree.resolve(), Path(told[1]).resolve(), Path(told[2]).resolve()
    before = top if stood is None else stood.parent.resolve() / stood.name
    return Layout(top, own, common, told[3], before)


def layout_of_module(module: Path, own: Path) -> Layout:
    """Where the parts of a submodule lie, wherever its git dir takes its files to be.

    Raises:
        Refused: it is no repository (no_tree).
    """
    top, own = module.resolve(), own.resolve()
    env = (("GIT_DIR", str(own)), ("GIT_WORK_TREE", str(top)))
    told = _told(Git(module, dict(env)))
    if told is None or (own / "commondir").exists():
        raise _no_tree(module)
    return Layout(top, own, own, told[-1], top, env)


def _told(git: Git, *paths: str) -> list[str] | None:
    """Some paths of a tree and its hash, as git says them; None if it is no tree."""
    ran = git.run("rev-parse", "--path-format=absolute", *paths, "--show-object-format")
    if not ran.ok:
        return None
    lines = ran.out.removesuffix("\n").split("\n")
    if len(lines) == len(paths) + 1:
        return lines
    # A path holds a newline.
    asked = [git("rev-parse", "--path-format=absolute", path) for path in paths]
    return [*asked, lines[-1]]


def repository_dir(repository: Path) -> Path:
    """The git dir that all trees of the repository at a path share. It may be bare.

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
            remedy="Name the directory of one.",
        )
    return Path(ran.out.removesuffix("\n")).resolve()


def _no_tree(tree: Path) -> Refused:
    return Refused(
        f"{tree} is not the top of a git tree.",
        reason="no_tree",
        remedy="Look at it: its `.git` is missing or points to nothing.",
    )


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(each.name for each in folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Unavailable(
            f"{folder} cannot be read: {error.strerror}.", remedy="See to its permissions."
        ) from None


def _file_or_below(root: Path, path: Path) -> Iterator[str]:
    if path.is_dir() and not path.is_symlink():
        yield from _below(root, path, ("*.lock",))
    elif path.is_file() or path.is_symlink():
        yield str(path.relative_to(root))


def _below(root: Path, folder: Path, but: tuple[str, ...]) -> Iterator[str]:
    """The files below a folder, but for those names in it."""
    for name in _names_in(folder):
        if not any(fnmatchcase(name, each) for each in but):
            yield from _file_or_below(root, folder / name)
