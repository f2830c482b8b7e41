"""Builds the commit of a snapshot: files, index, and what git cannot hold in a tree.

The commit looks like a stash, so that git alone can restore most of it: its tree has the files byte
for byte, its parents are the head and a commit of the index. The latter has one more parent, from
which `restore` reads the rest: `note.json` and a tar file in blobs. Its parents are all commits
that nothing else leads to.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bullpen.workspace.git.layout import Layout
from bullpen.workspace.git.raw import fresh_index, raw_git
from bullpen.workspace.git.run_git import TREE_S, Git
from bullpen.workspace.snapshots.contents import git_dir_named
from bullpen.workspace.snapshots.pack import Bound, Pack
from bullpen.workspace.snapshots.unsaved import MODULE, Unsaved, blob_id, mode_of

FORM = 1
"""The format version of the rest."""

REST = "^2^2"
"""The path from a snapshot to the commit that holds the rest."""

_OUR_REFS = re.compile(r"(logs/)?refs/bullpen/")
_PLAIN_FILES = {0o644, 0o664, 0o755, 0o775}


@dataclass(frozen=True, slots=True)
class Built:
    """The parts of a snapshot as objects; only the commit is still to be created."""

    tree: str
    rest_tree: str
    base: str
    staged: str
    files: int
    left_out: list[str]


def build(place: Layout, found: Unsaved, *, most: int, whole: bool, env: dict[str, str]) -> Built:
    """Write what was found in a worktree as objects. `env` says who commits.

    Raises:
        Refused: there is too much untracked content (too_big).
        Unavailable: something cannot be read or written.
    """
    about = f"The worktree {place.top}"
    bound = Bound(most)
    for path in found.stored:
        bound.take(found.contents.files[path].st_size, about)
    with raw_git(place.common / "objects", place.top, place.hash_name) as raw:
        git = raw.with_env(**env)
        tree, index = _tree_of_files(git, place, found), _tree_of_index(git, found)
        pack = Pack(git, bound, about)
        pack.write(_sources(place, found, whole=whole), _tags(place.git, found))
        contents = found.contents
        left_out = sorted([*contents.left_out, *contents.strangers, *pack.left_out])
        note = {
            "form": FORM,
            "kind": "repository" if whole else "tree",
            "head": found.head,
            "branch": found.branch,
            "index": index,
            "empty": contents.empty,
            "folders": contents.folders,
            "modes": _modes(found),
            "derived": {path: blob_id(place.top / path, place.hash_name) for path in found.derived},
            "links": _links(place, found),
            "left_out": left_out,
            "blobs": pack.blobs,
        }
        rest_tree = _tree_of_rest(git, found, note)
        base = found.head or commit(git, _empty_tree(git), [], "No commit was made yet.")
        rest = commit(git, rest_tree, found.ends, "What git holds in no tree")
        staged = commit(git, index, [base, rest], "The index")
        inside = set(contents.nested) - set(found.settled)
        changed = {*_unlike(git, base, tree), *_unlike(git, base, index), *contents.apart, *inside}
        return Built(tree, rest_tree, base, staged, len(changed), left_out)


def commit(git: Git, tree: str, parents: Sequence[str], message: str) -> str:
    """Create a commit that is on no branch."""
    named = [word for parent in parents for word in ("-p", parent)]
    return git("-c", "i18n.commitEncoding=utf-8", "commit-tree", tree, *named, given=message)


def _unlike(git: Git, one: str, other: str) -> list[str]:
    # With this, git does not read .gitmodules, which may contain anything.
    words = ("diff-tree", "-r", "-z", "--name-only", "--ignore-submodules=none")
    return git.lines(*words, one, other, seconds=TREE_S)


def _empty_tree(git: Git) -> str:
    return git("mktree", given="")


def _tree_of_files(git: Git, place: Layout, found: Unsaved) -> str:
    """Return a tree of the files: existing blobs by id, the rest by content."""
    files, stored = found.contents.files, {*found.stored, *found.restyled}
    known = {**found.same, **found.derived}
    rows = [(mode_of(files[path]), blob, path) for path, blob in known.items()]
    rows += [
        (entry.mode, entry.blob, entry.path)
        for entry in found.index
        if entry.mode == MODULE and entry.stage == 0 and _is_folder(place.top / entry.path)
    ]
    git = fresh_index(git, "files")
    _add(git, [row for row in rows if row[2] not in stored])
    if stored:
        names = "\0".join([*sorted(stored), ""])
        git("update-index", "--add", "-z", "--stdin", given=names, seconds=TREE_S)
    return git("write-tree", "--missing-ok", seconds=TREE_S)


def _tree_of_index(git: Git, found: Unsaved) -> str:
    git = fresh_index(git, "staged")
    _add(git, [(each.mode, each.blob, each.path) for each in found.index if each.stage == 0])
    return git("write-tree", "--missing-ok", seconds=TREE_S)


def _tree_of_rest(git: Git, found: Unsaved, note: dict[str, Any]) -> str:
    """Return a tree of the note, the tar file, conflict sides and objects named in the git dir."""
    text = json.dumps(note, sort_keys=True, indent=1)
    rows = [("100644", "blob", git("hash-object", "-w", "--stdin", given=text), "note.json")]
    if note["blobs"]:
        packed = [
            ("100644", "blob", blob, f"{number:04}") for number, blob in enumerate(note["blobs"])
        ]
        rows.append(("040000", "tree", _mktree(git, packed), "pack.tar"))
    sides = [entry for entry in found.index if entry.stage]
    if sides:
        index = fresh_index(git, "sides")
        _add(index, [(each.mode, each.blob, f"{each.stage}/{each.path}") for each in sides])
        rows.append(("040000", "tree", index("write-tree", "--missing-ok"), "sides"))
    others = [
        ("040000" if kind == "tree" else "100644", kind, name, name)
        for name, kind in found.others.items()
        if kind != "tag"
    ]
    if others:
        rows.append(("040000", "tree", _mktree(git, others), "objects"))
    return _mktree(git, rows)


def _mktree(git: Git, rows: Sequence[tuple[str, str, str, str]]) -> str:
    lines = "".join(f"{mode} {kind} {name}\t{path}\n" for mode, kind, name, path in rows)
    return git("mktree", given=lines)


def _add(git: Git, rows: Sequence[tuple[str, str, str]]) -> None:
    if rows:
        lines = "".join(f"{mode} {blob}\t{path}\0" for mode, blob, path in rows)
        git("update-index", "-z", "--index-info", given=lines, seconds=TREE_S)


def _sources(place: Layout, found: Unsaved, *, whole: bool) -> list[tuple[str, Path]]:
    """Return what goes into the tar file: everything below `tree` and `own` is restored."""
    # Other snapshots are in the same repository, and would make each new one different.
    state = [name for name in place.state(whole=whole) if not _OUR_REFS.match(name)]
    sources = [(f"own/{name}", place.own / name) for name in state]
    paths = sorted([*found.contents.apart, *found.contents.nested])
    sources += [(f"tree/{path}", place.top / path) for path in paths]
    modules = place.own / "modules"
    if modules.is_dir() and any(_git_file(place.top / path) for path in found.contents.nested):
        sources.append(("own/modules", modules))
    return sources


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _git_file(folder: Path) -> Path | None:
    file = folder / ".git"
    return file if file.is_file() and not file.is_symlink() else None


def _tags(git: Git, found: Unsaved) -> dict[str, bytes]:
    """Return annotated tags, which no tree or commit can lead to."""
    return {
        f"tag/{name}": git.run("cat-file", "tag", name).out.encode("utf-8", "surrogateescape")
        for name, kind in sorted(found.others.items())
        if kind == "tag"
    }


def _modes(found: Unsaved) -> dict[str, int]:
    """Return the permissions of files for which git has no mode."""
    modes = {}
    for path, about in found.contents.files.items():
        mode = stat.S_IMODE(about.st_mode)
        if stat.S_ISREG(about.st_mode) and mode not in _PLAIN_FILES:
            modes[path] = mode
    return modes


def _links(place: Layout, found: Unsaved) -> list[list[str]]:
    """Return the `.git` files that point to a git dir by its current location.

    `own` is below the git dir of the worktree, `tree` in the worktree itself. The last is the
    settings file by which that git dir points back, if it does.
    """
    links = []
    for top in sorted(found.contents.nested):
        for folder, folders, names in os.walk(place.top / top):
            folders.sort()
            file = _git_file(Path(folder)) if ".git" in names else None
            target = None if file is None else git_dir_named(file)
            if file is None or target is None:
                continue
            where = str(file.relative_to(place.top))
            for kind, root in (("own", place.own), ("tree", place.top)):
                if target.is_relative_to(root):
                    stood = place.stood / file.parent.relative_to(place.top)
                    back = _points_back(place.git, target, (file.parent, stood))
                    links.append([where, kind, str(target.relative_to(root)), back])
                    break
    return links


def _points_back(git: Git, git_dir: Path, folders: Sequence[Path]) -> str:
    """Return the settings of a git dir that name one of these as its worktree; empty if none do."""
    for name in ("config.worktree", "config"):
        words = ("config", "--file", str(git_dir / name), "--get", "core.worktree")
        said = git.run(*words)
        if said.ok:
            there = os.path.realpath(git_dir / said.out.removesuffix("\n"))
            return name if there in map(os.path.realpath, folders) else ""
    return ""
