"""Guarded files: programs outside the sandbox obey them, so nothing inside may write them.

The most important is the git dir. Its settings and hooks name programs, and some files say which
settings and hooks count. In a linked worktree, the sandbox has a git dir of its own in place of the
repository's: it shows what is in there read-only, except a short list. In a checkout with its own
`.git`, git creates files in that directory itself, so that the dangerous names are guarded one by
one; each must exist, or somebody inside could create it.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress

from bullpen.errors import Unavailable
from bullpen.sandbox.mounts import Mount, mount

ITSELF = b".\n"
"""What `commondir` says in a git dir that shares nothing with another one."""

_RUN_LATER = (".claude", ".bullpen")
"""Files that other programs run or obey later, outside the sandbox: hooks and settings."""

_GIT_FOLDERS = ("hooks", "info", "modules", "worktrees", "objects/info")
_GIT_FILES = ("config", "config.worktree")
_OWN_FILES = ("commondir", "gitdir", "config.worktree")

_VIEWS = "/run/bullpen/repositories"
_FILES_LATER = ("config", "config.worktree", "HEAD", "shallow")
"""Files that may come to be in a repository while a command runs."""
_GIT_FOLLOWS_LINKS = 5


def guards(root: str, hidden: Sequence[str]) -> Iterator[Mount]:
    """Protect guarded files, which other programs run later outside the sandbox."""
    for name in _RUN_LATER:
        path = os.path.join(root, name)
        if path not in hidden:
            yield _kept(path)
    git = os.path.join(root, ".git")
    kind = _kind(git)
    if kind == "directory":
        yield from _git_guards(git)
    elif kind == "file":
        yield _kept(git)
        yield from _worktree_guards(git)


def _kind(path: str) -> str | None:
    """The kind of a path: directory, file or None. Links are refused: they can be changed."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(mode):
        raise Unavailable(
            f"{path!r} is a link, so a sandbox cannot protect it.",
            remedy="Replace the link with the directory itself.",
        )
    return "directory" if stat.S_ISDIR(mode) else "file"


def _kept(path: str) -> Mount:
    """A mount that keeps a path from being changed, moved or created."""
    if _kind(path) is None:
        return mount(path, 4, "--tmpfs", path, "--remount-ro", path)
    return mount(path, 4, "--ro-bind", path, path)


def _kept_file(path: str) -> Mount:
    """The same for a file; an empty one is created if it does not exist."""
    if _kind(path) is None:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644))
    return mount(path, 4, "--ro-bind", path, path)


def _git_guards(git: str) -> Iterator[Mount]:
    """Guard a git dir that git has to write in, name by name."""
    # Its own mount, so that it cannot be moved away and replaced.
    yield mount(git, 3, "--bind", git, git)
    for name in _GIT_FOLDERS:
        yield _kept(os.path.join(git, name))
    for name in _GIT_FILES:
        yield _kept_file(os.path.join(git, name))
    yield _kept_file(_common_dir_is_itself(git))


def _common_dir_is_itself(git: str) -> str:
    """Make sure that a git dir names itself as the one with its settings. Returns that file.

    Without the file, git does the same; but then one could be created that names another place.
    """
    file = os.path.join(git, "commondir")
    if _kind(file) is None:
        descriptor, made = tempfile.mkstemp(prefix=".commondir.", dir=git)
        try:
            with os.fdopen(descriptor, "wb") as out:
                out.write(ITSELF)
            # Never replaced: that would take the guard away from a command that runs already.
            with suppress(FileExistsError):
                os.link(made, file)
        finally:
            os.unlink(made)
    with open(file, "rb") as there:
        said = there.read(4096)
    if said != ITSELF:
        raise Unavailable(
            f"{file} makes git read settings and hooks from another place: {said!r}.",
            remedy=f"Check who wrote it, then remove {file}.",
        )
    return file


def _worktree_guards(git: str) -> Iterator[Mount]:
    """Let a linked worktree commit into its repository, if the repository knows it.

    Writable are new objects, the branches of its team, and what belongs to this worktree alone.
    """
    try:
        with open(git, encoding="utf-8") as file:
            own = os.path.realpath(file.read().removeprefix("gitdir:").strip())
        with open(os.path.join(own, "gitdir"), encoding="utf-8") as file:
            mutual = os.path.realpath(file.read().strip()) == git
    except (OSError, ValueError):
        return
    folder, repository = os.path.dirname(own), os.path.dirname(os.path.dirname(own))
    if not mutual or os.path.basename(folder) != "worktrees":
        return
    yield from _stand_in(repository)
    branches = _branches(repository, os.path.dirname(git))
    for path in ("objects", "lfs", branches, os.path.join("logs", branches)):
        place = os.path.join(repository, path)
        if path != "lfs":
            os.makedirs(place, exist_ok=True)
        if _kind(place) == "directory" and os.path.realpath(place) == place:
            yield mount(place, 4, "--bind", place, place)
    yield _kept(os.path.join(repository, "objects", "info"))
    yield mount(own, 4, "--bind", own, own)
    for name in _OWN_FILES:
        yield _kept_file(os.path.join(own, name))


def _stand_in(repository: str) -> Iterator[Mount]:
    """A git dir of the sandbox's own, with the folders and files of a repository read-only.

    Git creates locks in that directory itself. Here they are seen by nobody else, and a file that
    is created beside them means nothing outside. Files are links into a read-only view of the whole
    directory, because git replaces them when it changes them.
    """
    view = os.path.join(_VIEWS, hashlib.sha256(os.fsencode(repository)).hexdigest()[:16])
    yield mount(repository, 3, "--tmpfs", repository)
    yield mount(view, 3, "--ro-bind", repository, view)
    names = {*os.listdir(repository), *_FILES_LATER}
    for name in sorted(names - {"packed-refs"}):
        path = os.path.join(repository, name)
        if os.path.isdir(path):
            yield mount(path, 3, "--ro-bind", path, path)
        else:
            yield mount(path, 3, "--symlink", os.path.join(view, name), path)
    # To delete any ref, git locks this file: it follows so many links to it and no more, and
    # creates the lock beside the last of them.
    links = ["packed-refs", *(f".packed-refs.{number}" for number in range(_GIT_FOLLOWS_LINKS))]
    for name, target in zip(links, [*links[1:], os.path.join(view, "packed-refs")], strict=True):
        path = os.path.join(repository, name)
        yield mount(path, 3, "--symlink", target, path)


def _branches(repository: str, tree: str) -> str:
    """The folder of the branches that a worktree may move: those of its team.

    Bullpen recorded the branch where nothing inside can write. Somebody else's worktree has no
    record: there, all branches can be moved, but nothing else.
    """
    heads = os.path.join("refs", "heads")
    for name in glob.iglob(os.path.join(glob.escape(repository), "bullpen", "*", "*.json")):
        with suppress(OSError, ValueError, KeyError, TypeError), open(name, "rb") as file:
            claim = json.load(file)
            if os.path.realpath(claim["path"]) == tree:
                return os.path.dirname(os.path.join(heads, claim["branch"]))
    return heads
