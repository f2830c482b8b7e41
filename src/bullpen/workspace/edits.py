"""What is not committed in a tree, and keeping some of it safe as a commit under a ref of ours.

A snapshot for the removal of a tree holds everything, and takes its time. This is for a tree in
which people and agents go on working: it holds the files that are named, and nothing is changed.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bullpen.errors import Refused, Unavailable
from bullpen.workspace.git import TREE_S, Git, GitFailed
from bullpen.workspace.names import shared_refs

BYTES_MAX = 2_000_000_000
_NUMBER_TRIES = 50
_LINK = "120000"


@dataclass(frozen=True, slots=True)
class Edit:
    """A path that differs from what is committed. `index` and `tree` are the letters of git."""

    path: str
    index: str
    tree: str

    @property
    def kinds(self) -> frozenset[str]:
        """What is the matter with it: changed, staged, untracked, ignored."""
        if self.index == "?":
            return frozenset(["untracked"])
        if self.index == "!":
            return frozenset(["ignored"])
        found = {"staged"} if self.index != " " else set()
        # What is staged is lost as well by what throws changed files away.
        return frozenset({*found, "changed"})


@dataclass(frozen=True, slots=True)
class Kept:
    """Files that were kept safe: the commit that holds them, and the ref that keeps it."""

    ref: str
    commit: str
    paths: tuple[str, ...]


def top_of(where: str) -> str | None:
    """The top of the git tree that a directory lies in; None if there is none.

    It is looked for without git, because it is asked often.
    """
    here = os.path.realpath(where)
    while True:
        if os.path.lexists(os.path.join(here, ".git")):
            return here
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above


def edits(top: str, *, ignored: bool = False, only: Sequence[str] = ()) -> list[Edit]:
    """Every path in a tree that differs from what is committed, untracked ones too.

    With `only` no others than these are looked at.

    Raises:
        Unavailable: git fails.
    """
    words = [
        "--literal-pathspecs",
        "status",
        "--porcelain=v1",
        "-z",
        "--no-renames",
        "--untracked-files=all",
    ]
    # Git may write the index only to remember what it looked at; here it must not.
    git = Git(Path(top)).with_env(GIT_OPTIONAL_LOCKS="0")
    words += ["--ignored=traditional"] if ignored else []
    lines = git.lines(*words, "--", *only, seconds=TREE_S)
    return [Edit(line[3:].rstrip("/"), line[0], line[1]) for line in lines]


def alias_of(where: str, name: str) -> str | None:
    """What a name stands for in git's settings in a directory; None if nothing."""
    ran = Git(Path(where)).run("config", "--get", f"alias.{name}")
    return ran.out.removesuffix("\n") if ran.ok else None


def keep(top: str, paths: Sequence[str], *, team: str, why: str) -> Kept | None:
    """Keep files as they are now, byte for byte; None if none of them is there.

    They are in the tree of a commit, with the head as its parent, and a commit of the index as
    another. Links are kept as links. Nothing in the tree or its index is changed.

    Raises:
        Refused: too_big.
        Unavailable: git fails, or a file cannot be read.
    """
    git = Git(Path(top))
    files = _there(top, paths)
    if not files:
        return None
    head = git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    parents = [head.out.strip()] if head.ok else []
    with tempfile.TemporaryDirectory(prefix="bullpen-", ignore_cleanup_errors=True) as folder:
        aside = git.with_env(**_IDENTITY, GIT_INDEX_FILE=f"{folder}/index")
        staged = _staged(git, aside, parents, f"{folder}/staged")
        aside("read-tree", parents[0], seconds=TREE_S) if parents else aside("read-tree", "--empty")
        rows = zip(_modes(top, files), _blobs(aside, top, files), files, strict=True)
        given = "".join(f"{mode} {blob}\t{path}\0" for mode, blob, path in rows)
        aside("update-index", "-z", "--add", "--replace", "--index-info", given=given)
        tree = aside("write-tree")
        given_parents = [word for each in (*parents, *staged) for word in ("-p", each)]
        commit = aside("commit-tree", tree, *given_parents, given=f"{why}\n")
    return Kept(_named(git, commit, team), commit, tuple(files))


_IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Bullpen"), ("EMAIL", "bullpen@localhost"))
}


def _there(top: str, paths: Sequence[str]) -> list[str]:
    """The files and links among these paths that can be kept."""
    found, size = [], 0
    for path in dict.fromkeys(paths):
        try:
            about = os.lstat(os.path.join(top, path))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise _unreadable(path, error) from None
        if stat.S_ISREG(about.st_mode) or stat.S_ISLNK(about.st_mode):
            found.append(path)
            size += about.st_size
    if size > BYTES_MAX:
        raise Refused(
            f"The edits that others have not committed are {size / 1e9:.1f} GB,"
            f" more than the {BYTES_MAX / 1e9:.0f} GB that are kept safe.",
            reason="too_big",
            remedy="Have git ignore what is no work of anybody's, or commit it.",
        )
    return found


def _modes(top: str, files: Sequence[str]) -> list[str]:
    modes = []
    for path in files:
        about = os.lstat(os.path.join(top, path)).st_mode
        modes.append(_LINK if stat.S_ISLNK(about) else "100755" if about & 0o100 else "100644")
    return modes


def _blobs(git: Git, top: str, files: Sequence[str]) -> list[str]:
    """The bytes of each file as an object, past every filter."""
    plain = [path for path in files if not os.path.islink(os.path.join(top, path))]
    blobs: dict[str, str] = {}
    # In a list a newline ends a path, and one that begins with a quote is read as quoted.
    odd = [path for path in plain if "\n" in path or path.startswith('"')]
    listed = [path for path in plain if path not in set(odd)]
    if listed:
        given = "".join(f"{path}\n" for path in listed)
        said = git("hash-object", "-w", "--no-filters", "--stdin-paths", given=given).splitlines()
        blobs |= dict(zip(listed, said, strict=True))
    for path in odd:
        blobs[path] = git("hash-object", "-w", "--no-filters", "--", path)
    for path in files:
        if path not in blobs:
            try:
                target = os.readlink(os.path.join(top, path))
            except OSError as error:
                raise _unreadable(path, error) from None
            blobs[path] = git("hash-object", "-w", "--no-filters", "--stdin", given=target)
    return [blobs[path] for path in files]


def _staged(git: Git, aside: Git, parents: Sequence[str], copy: str) -> list[str]:
    """A commit of the index, if it differs from the head and holds no conflict."""
    try:
        # Git writes to the index that it makes a tree of.
        shutil.copyfile(git.where / git("rev-parse", "--git-path", "index"), copy)
    except FileNotFoundError:
        return []
    tree = git.with_env(GIT_INDEX_FILE=copy).run("write-tree")
    if not tree.ok:
        return []
    if parents and git("rev-parse", f"{parents[0]}^{{tree}}") == tree.out.strip():
        return []
    words = [word for each in parents for word in ("-p", each)]
    return [aside("commit-tree", tree.out.strip(), *words, given="The index\n")]


def _named(git: Git, commit: str, team: str) -> str:
    """Give a commit the next ref. Two who do so at once get two."""
    folder = shared_refs(team)
    for _ in range(_NUMBER_TRIES):
        refs = git("for-each-ref", "--format=%(refname)", folder).splitlines()
        numbers = [
            int(ref.rpartition("/")[2]) for ref in refs if ref.rpartition("/")[2].isdecimal()
        ]
        ref = f"{folder}/{max(numbers, default=0) + 1}"
        try:
            git("update-ref", ref, commit, "0" * len(commit))
        except GitFailed:
            continue
        return ref
    raise Unavailable(
        f"No ref could be made below {folder}.", remedy="See what git says: git for-each-ref"
    )


def _unreadable(path: str, error: OSError) -> Unavailable:
    return Unavailable(
        f"{path} cannot be read: {error.strerror}.", remedy="See to its permissions."
    )
