"""Submodules: a new worktree gets those of the user's checkout, from the user's copies.

Git itself is never asked to work in a submodule from outside: it would start git there without the
settings that keep a repository from running programs. Each submodule is asked by itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bullpen.errors import Refused
from bullpen.workspace.git.run_git import TREE_S, Git, GitFailed

_LINK = "160000"
_RULES = ".gitattributes"


@dataclass(frozen=True, slots=True)
class _Module:
    """A submodule of a commit: its name, its path in the worktree, and its commit."""

    name: str
    path: str
    commit: str


@dataclass(frozen=True, slots=True)
class Notable:
    """What a commit has besides plain files: repositories by path, and attribute files."""

    links: dict[str, str]
    rules: tuple[str, ...]


def check_modules(tree: Path, commit: str) -> None:
    """Check that a commit's submodules are available without a network.

    Raises:
        Refused: the user's copy of one lacks the commit, or it is not in .gitmodules
            (submodule_missing).
    """
    for module in _modules(tree, commit, notable(tree, commit)):
        own = tree / module.path
        if not _is_there(own):
            continue
        if not module.name:
            raise _missing(own, "it is a repository that .gitmodules does not name")
        if not Git(own).run("cat-file", "-e", f"{module.commit}^{{commit}}").ok:
            raise _missing(own, f"it lacks the commit {module.commit[:12]}")
        check_modules(own, module.commit)


def fill_modules(tree: Path, users: Path, keep: tuple[int, ...]) -> None:
    """Give a worktree the submodules of the user's checkout, from the user's copies.

    Existing ones are not changed.

    Raises:
        Refused: one is not available (submodule_missing).
        GitFailed: git fails for another reason.
    """
    if not (tree / ".gitmodules").exists():
        return
    for module in _modules(tree, "HEAD", _looked(tree, "HEAD")):
        own, theirs = tree / module.path, users / module.path
        if not module.name or not _is_there(theirs):
            continue
        if not _is_there(own) or not Git(own).run("rev-parse", "--verify", "HEAD").ok:
            _copy(tree, module, theirs, keep)
        fill_modules(own, theirs, keep)


def fetch_modules(tree: Path) -> None:
    """Give a clone its submodules, from their remotes. Raises Refused (submodule_missing)."""
    if not (tree / ".gitmodules").exists():
        return
    # Their addresses are in the repository, not given by the user: git uses fewer protocols then.
    git = Git(tree, {"GIT_PROTOCOL_FROM_USER": "0"})
    ran = git.run("submodule", "--quiet", "init")
    if not ran.ok:
        raise _missing(tree, ran.err.strip()[-500:])
    for module in _modules(tree, "HEAD", _looked(tree, "HEAD")):
        key = f"submodule.{module.name}"
        url, active = git.run("config", f"{key}.url"), git.run("config", f"{key}.active")
        if not module.name or not url.ok or active.out.strip() == "false":
            continue
        if not _is_there(tree / module.path):
            _clone(git, module, url.out.removesuffix("\n"))
        fetch_modules(tree / module.path)


def dirty_modules(tree: Path) -> Iterator[str]:
    """Return the paths of submodules in which tracked files are changed, also in theirs."""
    for line in Git(tree).lines("ls-files", "--stage", "-z"):
        about, _, path = line.partition("\t")
        own = tree / path
        if about.startswith(_LINK) and _is_there(own):
            words = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=no")
            if Git(own).lines(*words) or any(dirty_modules(own)):
                yield path


def links_in(tree: Path, commit: str) -> Iterator[tuple[str, str]]:
    """Return the path and commit of every repository inside a commit."""
    yield from _looked(tree, commit).links.items()


@lru_cache(maxsize=64)
def notable(tree: Path, commit: str) -> Notable:
    """Return what must be known of a commit before it is checked out.

    A team starts many worktrees with one commit, whose content never changes; so it must be the
    full id of a commit, not a name.
    """
    return _looked(tree, commit)


def _looked(tree: Path, commit: str) -> Notable:
    links: dict[str, str] = {}
    rules: list[str] = []
    for line in Git(tree).lines("ls-tree", "-r", "-z", "--full-tree", commit):
        if line.startswith(_LINK) or line.endswith(_RULES):
            about, _, path = line.partition("\t")
            found = about.split(" ")[2]
            if line.startswith(_LINK):
                links[path] = found
            elif os.path.basename(path) == _RULES:
                rules.append(found)
    return Notable(links, tuple(rules))


def _modules(tree: Path, commit: str, found: Notable) -> list[_Module]:
    if not found.links:
        return []
    names: dict[str, str] = {}
    words = ("config", "-z", "--blob", f"{commit}:.gitmodules", "--get-regexp", r"\.path$")
    ran = Git(tree).run(*words)
    for item in ran.out.split("\0"):
        key, _, path = item.partition("\n")
        names[path] = key.removeprefix("submodule.").removesuffix(".path")
    return [_Module(names.get(path, ""), path, link) for path, link in found.links.items()]


def _is_there(module: Path) -> bool:
    return os.path.lexists(module / ".git")


def _copy(tree: Path, module: _Module, theirs: Path, keep: tuple[int, ...]) -> None:
    source = Git(theirs)("rev-parse", "--path-format=absolute", "--git-common-dir")
    _clone(Git(tree, keep=keep), module, source)
    url = Git(theirs).run("remote", "get-url", "origin")
    if url.ok:
        Git(tree / module.path)("remote", "set-url", "origin", url.out.removesuffix("\n"))


def _clone(git: Git, module: _Module, source: str) -> None:
    """Make a submodule as `git submodule update` does, unless its git dir is there already."""
    tree = git.where
    own = tree / module.path
    place = Path(git("rev-parse", "--absolute-git-dir"), "modules", module.name)
    if not _is_plain(module.name):
        raise _missing(own, f"{module.name!r} is not a usable name")
    if not (place / "HEAD").exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        words = ("clone", "--quiet", "--no-checkout", f"--separate-git-dir={place}", "--")
        _must(git, own, *words, source, str(own))
    own.mkdir(parents=True, exist_ok=True)
    # As git writes them: relative, so that both can be moved together.
    (own / ".git").write_text(f"gitdir: {os.path.relpath(place, own)}\n", "utf-8")
    inside = Git(own, git.env, keep=git.keep)
    inside("config", "core.worktree", os.path.relpath(own, place))
    if not inside.run("cat-file", "-e", f"{module.commit}^{{commit}}").ok:
        _must(inside, own, "fetch", "--quiet", "--no-write-fetch-head", source, module.commit)
    _must(inside, own, "checkout", "--quiet", "--force", "--detach", module.commit)


def _is_plain(name: str) -> bool:
    """Return whether the name of a submodule is a path that stays below `modules`."""
    return bool(name) and not name.startswith("/") and ".." not in name.split("/")


def _must(git: Git, module: Path, *words: str) -> None:
    ran = git.run(*words, seconds=TREE_S)
    if not ran.ok:
        if "No space left" in ran.err:
            raise GitFailed(words, ran.code, ran.err, str(module))
        raise _missing(module, ran.err.strip()[-500:])


def _missing(module: Path, why: str) -> Refused:
    return Refused(
        f"The submodule at {module} is not available for a new worktree: {why}.",
        reason="submodule_missing",
        remedy="Run `git submodule update --init` in your checkout, then try again.",
    )
