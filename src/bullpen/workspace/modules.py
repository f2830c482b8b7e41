"""Submodules: a new tree has those that the user's tree has, from his own copies of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bullpen.errors import Refused
from bullpen.workspace.git import TREE_S, Git, GitFailed

_LINK = "160000"
_RULES = ".gitattributes"


@dataclass(frozen=True, slots=True)
class _Module:
    """A submodule of a commit: its name, where it is in the tree, and the commit it is at."""

    name: str
    path: str
    commit: str


@dataclass(frozen=True, slots=True)
class Notable:
    """What a commit has beside plain files: repositories, by path, and files of attributes."""

    links: dict[str, str]
    rules: tuple[str, ...]


def check_modules(tree: Path, commit: str) -> None:
    """Look whether the submodules that a tree has can be had for a commit without a network.

    Raises:
        Refused: the user's copy of one lacks the commit, or nobody says what it is
            (submodule_missing).
    """
    for module in _modules(tree, commit, notable(tree, commit)):
        own = tree / module.path
        if not _is_there(own):
            continue
        if not module.name:
            raise _missing(own, "it is a repository of its own that .gitmodules does not name")
        if not Git(own).run("cat-file", "-e", f"{module.commit}^{{commit}}").ok:
            raise _missing(own, f"it lacks the commit {module.commit[:12]} that is asked for")
        check_modules(own, module.commit)


def fill_modules(tree: Path, users: Path, keep: tuple[int, ...]) -> None:
    """Give a tree the submodules that the user's tree has, from its copies of them.

    What is there already stays as it is.

    Raises:
        Refused: one cannot be had (submodule_missing).
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
    """Give a clone of what is elsewhere its submodules, from where it says that they are.

    Raises:
        Refused: one cannot be had (submodule_missing).
    """
    if (tree / ".gitmodules").exists():
        words = ("submodule", "--quiet", "update", "--init", "--recursive")
        ran = Git(tree).run(*words, seconds=TREE_S)
        if not ran.ok:
            raise _missing(tree, ran.err.strip()[-500:])


def links_in(tree: Path, commit: str) -> Iterator[tuple[str, str]]:
    """The path and commit of every repository that a commit has inside of it."""
    yield from _looked(tree, commit).links.items()


@lru_cache(maxsize=64)
def notable(tree: Path, commit: str) -> Notable:
    """What has to be known of a commit before it is checked out.

    A team begins many trees with one commit, and what is in that never changes; so it has to be
    the whole id of a commit, not a name.
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
    # Told in the environment: nothing is written into the settings that all trees share.
    settings = {
        f"submodule.{module.name}.url": source,
        f"submodule.{module.name}.active": "true",
        f"submodule.{module.name}.update": "checkout",
        "protocol.file.allow": "always",
    }
    env = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    git = Git(tree, env=env, keep=keep)
    words = ("submodule", "--quiet", "update", "--no-fetch", "--checkout", "--force", "--")
    ran = git.run(*words, module.path, seconds=TREE_S)
    if not ran.ok:
        if "No space left" in ran.err:
            raise GitFailed(words, ran.code, ran.err, str(tree))
        raise _missing(tree / module.path, ran.err.strip()[-500:])
    url = Git(theirs).run("remote", "get-url", "origin")
    if url.ok:
        Git(tree / module.path)("remote", "set-url", "origin", url.out.removesuffix("\n"))


def _missing(module: Path, why: str) -> Refused:
    return Refused(
        f"The submodule at {module} cannot be had for a new tree: {why}.",
        reason="submodule_missing",
        remedy="Run: git submodule update --init, in your own tree, then try again.",
    )
