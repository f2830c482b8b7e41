"""Uncommitted edits in a shared checkout: lists them, and saves some as a commit under a ref.

People and agents go on working meanwhile: only the named files are saved, and nothing is changed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bullpen.workspace.git.layout import Layout, layout_of
from bullpen.workspace.git.marks import read_errors
from bullpen.workspace.git.raw import fresh_index, raw_git, reading
from bullpen.workspace.git.ref_names import shared_refs
from bullpen.workspace.git.run_git import TREE_S, Git, identity
from bullpen.workspace.snapshots.build import commit
from bullpen.workspace.snapshots.pack import Bound
from bullpen.workspace.snapshots.save import BYTES_MAX, next_ref


@dataclass(frozen=True, slots=True)
class UncommittedEdit:
    """A path that differs from what is committed. `index` and `tree` are the letters of git."""

    path: str
    index: str
    tree: str

    @property
    def kinds(self) -> frozenset[str]:
        """Return how it differs: changed, staged, untracked, ignored."""
        if self.index == "?":
            return frozenset(["untracked"])
        if self.index == "!":
            return frozenset(["ignored"])
        found = {"staged"} if self.index != " " else set()
        # A command that discards changed files discards staged ones too.
        return frozenset({*found, "changed"})


@dataclass(frozen=True, slots=True)
class KeptEdits:
    """Saved files, and the ref of the commit that has them."""

    ref: str
    paths: tuple[str, ...]


def top_of(where: str) -> str | None:
    """Return the top of the checkout that a directory is in, or None.

    This is asked often, so it does not start git.
    """
    here = os.path.realpath(where)
    while True:
        if os.path.lexists(os.path.join(here, ".git")):
            return here
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above


def edits(top: str, *, ignored: bool = False, only: Sequence[str] = ()) -> list[UncommittedEdit]:
    """Return the uncommitted paths of a checkout, or of these paths only. Raises Unavailable."""
    words = ["--literal-pathspecs", "status", "--porcelain=v1", "-z", "--no-renames"]
    words += ["--untracked-files=all", *(["--ignored=traditional"] if ignored else [])]
    # Without the optional lock, git does not rewrite the index.
    git = Git(Path(top)).with_env(GIT_OPTIONAL_LOCKS="0")
    lines = git.lines(*words, "--", *only, seconds=TREE_S)
    return [UncommittedEdit(line[3:].rstrip("/"), line[0], line[1]) for line in lines]


def alias_of(where: str, name: str) -> str | None:
    """Return the git alias of this name in a directory, or None."""
    ran = Git(Path(where)).run("config", "--get", f"alias.{name}")
    return ran.out.removesuffix("\n") if ran.ok else None


def keep(top: str, paths: Sequence[str], *, team: str, why: str) -> KeptEdits | None:
    """Save files byte for byte, and links as links; None if none of them exists.

    They are in the tree of a commit. Its parents are the head and a commit of the index.

    Raises:
        Refused: they are too large (too_big).
        Unavailable: git fails, or a file cannot be read.
    """
    place = layout_of(Path(top))
    files = _existing(place.top, paths)
    if not files:
        return None
    head = place.git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}").out.split()
    with raw_git(place.common / "objects", place.top, place.hash_name) as raw:
        git = fresh_index(raw.with_env(**identity("Bullpen", "bullpen@localhost")), "files")
        if head:
            git("read-tree", *head, seconds=TREE_S)
        names = "".join(f"{path}\0" for path in files)
        git("update-index", "-z", "--add", "--replace", "--stdin", given=names, seconds=TREE_S)
        tree = git("write-tree", "--missing-ok")
        made = commit(git, tree, [*head, *_commit_of_index(git, place, head)], f"{why}\n")
    ref, _ = next_ref(Git(place.common), shared_refs(team), made)
    return KeptEdits(ref, tuple(files))


def _existing(top: Path, paths: Sequence[str]) -> list[str]:
    """Return the files and links among these paths."""
    found = []
    bound = Bound(BYTES_MAX)
    for path in dict.fromkeys(paths):
        with read_errors(top / path):
            try:
                about = (top / path).lstat()
            except (FileNotFoundError, NotADirectoryError):
                continue
        if stat.S_ISREG(about.st_mode) or stat.S_ISLNK(about.st_mode):
            found.append(path)
            bound.take(about.st_size, f"The checkout {top}")
    return found


def _commit_of_index(git: Git, place: Layout, head: Sequence[str]) -> list[str]:
    """Return a commit of the index, if it differs from the head and has no conflicts."""
    rows = reading(git, place.own)("ls-files", "-z", "--stage", seconds=TREE_S)
    staged = fresh_index(git, "staged")
    staged("update-index", "-z", "--index-info", given=rows, seconds=TREE_S)
    tree = staged.run("write-tree", "--missing-ok").out.strip()
    same = [git("rev-parse", f"{each}^{{tree}}") for each in head] if rows else [tree]
    return [] if not tree or tree in same else [commit(git, tree, head, "The index\n")]
