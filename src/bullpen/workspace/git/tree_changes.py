"""What commits change, read from objects only: no worktree, index, filter or driver is asked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace

from bullpen.team.tasks.guarded_rules import TreeChange
from bullpen.workspace.git.run_git import TREE_S, Git

_GONE, _LINK = "000000", "120000"
_PLAIN = (
    "-r",
    "--raw",
    "-z",
    "--no-renames",
    "--no-abbrev",
    "--no-ext-diff",
    "--no-textconv",
    "--ignore-submodules=none",
)


def tree_changes(git: Git, base: str, head: str) -> list[TreeChange]:
    """What the commits after `base` up to `head` change, compared with `base`.

    Content that only a commit in between has is included: it would be in the history of the target.

    Raises:
        GitFailed: git fails, for example for lack of an object.
    """
    git = _as_stored(git)
    last = _rows(git.lines("diff-tree", *_PLAIN, base, head, seconds=TREE_S))
    commits = git("rev-list", f"{base}..{head}").split()
    between: list[TreeChange] = []
    if len(commits) > 1:
        words = ("diff-tree", "--stdin", "-m", "--root", "--no-commit-id", *_PLAIN)
        out = git(*words, given="\n".join(commits) + "\n", seconds=TREE_S)
        between = [each for each in _rows(out.split("\0")) if each.mode != _GONE]
        # A merge of the target brings what the base has.
        there = _entries(git, base, {each.path for each in between})
        between = [each for each in between if there.get(each.path) != (each.mode, each.blob)]
    known = {(each.path, each.mode, each.blob) for each in last}
    extra = [each for each in between if (each.path, each.mode, each.blob) not in known]
    return _with_links(git, [*last, *dict.fromkeys(extra)])


def diff_text(git: Git, base: str, head: str, paths: Sequence[str]) -> str:
    """The difference of these paths between two commits, as text."""
    words = ("diff-tree", "-r", "-p", "--no-color", "--no-renames", *_PLAIN[-3:], base, head)
    return _as_stored(git)("--literal-pathspecs", *words, "--", *paths, seconds=TREE_S)


def _as_stored(git: Git) -> Git:
    # Somebody who may write refs could make git show other content than the objects have.
    return git.with_env(GIT_GRAFT_FILE=os.devnull)


def _rows(items: Sequence[str]) -> list[TreeChange]:
    """The changes in raw output: a row about the modes and blobs, then the path."""
    found, fields = [], [item for item in items if item]
    for about, path in zip(fields[::2], fields[1::2], strict=True):
        before, mode, _, blob, _ = about.removeprefix(":").split(" ")
        found.append(TreeChange(path, before, mode, blob))
    return found


def _entries(git: Git, commit: str, paths: Iterable[str]) -> dict[str, tuple[str, str]]:
    """The mode and blob of these paths in a commit."""
    wanted = set(paths)
    if not wanted:
        return {}
    found = {}
    for row in git.lines("ls-tree", "-r", "-z", "--full-tree", commit, seconds=TREE_S):
        about, _, path = row.partition("\t")
        if path in wanted:
            mode, _, blob = about.split(" ")
            found[path] = (mode, blob)
    return found


def _with_links(git: Git, changes: Sequence[TreeChange]) -> list[TreeChange]:
    """The changes, with the target of each symbolic link."""
    blobs = list(dict.fromkeys(each.blob for each in changes if each.mode == _LINK))
    if not blobs:
        return list(changes)
    out = git("cat-file", "--batch", given="".join(f"{blob}\n" for blob in blobs), seconds=TREE_S)
    rest, links = out.encode("utf-8", "surrogateescape"), {}
    for blob in blobs:
        # A line with name, kind and size, the content, and a newline.
        about, _, rest = rest.partition(b"\n")
        size = int(about.split(b" ")[2])
        links[blob] = rest[:size].decode("utf-8", "surrogateescape")
        rest = rest[size + 1 :]
    return [
        replace(each, link=links[each.blob]) if each.mode == _LINK else each for each in changes
    ]
