"""Finds what exists only in a worktree: in no commit of a branch, tag or Bullpen ref."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from bullpen.errors import BullpenError
from bullpen.workspace.git.layout import Layout, layout_of_module
from bullpen.workspace.git.marks import read_errors
from bullpen.workspace.git.raw import raw_git, reading
from bullpen.workspace.git.ref_names import branch_of
from bullpen.workspace.git.repository import unfinished
from bullpen.workspace.git.run_git import TREE_S, Git
from bullpen.workspace.snapshots.contents import Contents, contents_of, git_dir_named

_ID = re.compile(rb"(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{40})(?![0-9a-f])")
_NO_IDS = re.compile(r"(.*/)?(index|sharedindex\..*|FETCH_HEAD|hooks/.*)")
MODULE = "160000"
"""The mode of a submodule in an index."""

_LINK = "120000"


class UnsavedEntry(NamedTuple):
    """A line of an index. `seen` is False if git was told to ignore the file."""

    path: str
    mode: str
    blob: str
    stage: int
    seen: bool


@dataclass(slots=True)
class Unsaved:
    """What is in a worktree, and which of it exists nowhere else."""

    head: str | None
    branch: str | None
    contents: Contents
    index: list[UnsavedEntry]
    # Files whose bytes are already a blob.
    same: dict[str, str] = field(default_factory=dict)
    # Files that git restores exactly by their filter, and those with other line endings.
    derived: dict[str, str] = field(default_factory=dict)
    restyled: list[str] = field(default_factory=list)
    # Files whose bytes exist nowhere else, and deleted files.
    stored: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    is_staged: bool = False
    unfinished: list[str] = field(default_factory=list)
    # The newest commits that only this worktree leads to, and other objects that it names.
    ends: list[str] = field(default_factory=list)
    others: dict[str, str] = field(default_factory=dict)
    # Submodules that have nothing that their source lacks.
    settled: list[str] = field(default_factory=list)

    @property
    def is_anything(self) -> bool:
        """Return whether anything would be lost with the worktree."""
        links = {entry.path for entry in self.index if entry.mode == MODULE}
        return bool(
            self.stored
            or self.gone
            or self.is_staged
            or self.unfinished
            or self.ends
            or self.contents.apart
            or set(self.contents.nested) - set(self.settled)
            or set(self.contents.empty) - links
        )


def look(place: Layout, *, team: str, agent: str, whole: bool) -> Unsaved:
    """Return what is in a worktree, and which of it exists nowhere else. Changes nothing.

    With `whole`, the repository goes with the worktree, so that its refs save nothing. Raises
    Unavailable.
    """
    git = place.git
    head = git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    branch = git.run("symbolic-ref", "--quiet", "HEAD")
    with raw_git(place.common / "objects", place.top, place.hash_name) as raw:
        found = Unsaved(
            head=head.out.strip() if head.ok else None,
            branch=branch.out.strip() if branch.ok else None,
            contents=contents_of(place),
            index=_entries(reading(raw, place.own)),
            unfinished=unfinished(place.own),
        )
        _sort_files(place, reading(raw, place.own), found, filters=place.filters_are_users)
        found.is_staged = _is_staged(reading(raw, place.own), found)
        _find_ends(place, found, team=team, agent=agent, whole=whole)
        found.settled = _settled(place, found)
    return found


def blob_id(path: Path, hash_name: str) -> str:
    """Return the git id of a file's bytes, or of a link's target. Raises Unavailable."""
    with read_errors(path):
        look = path.lstat()
        digest = hashlib.new(hash_name, usedforsecurity=False)
        if stat.S_ISLNK(look.st_mode):
            target = os.fsencode(os.readlink(path))
            digest.update(b"blob %d\0" % len(target) + target)
            return digest.hexdigest()
        digest.update(b"blob %d\0" % look.st_size)
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            while part := file.read(1024 * 1024):
                digest.update(part)
        return digest.hexdigest()


def _entries(git: Git) -> list[UnsavedEntry]:
    entries = []
    for line in git.lines("ls-files", "-z", "--stage", "-v", seconds=TREE_S):
        about, _, path = line.partition("\t")
        tag, mode, blob, stage = about.split(" ")
        entries.append(UnsavedEntry(path, mode, blob, int(stage), tag == "H"))
    return entries


def _is_staged(git: Git, found: Unsaved) -> bool:
    if found.head is None:
        return bool(found.index)
    return not git.run(
        "diff-index", "--cached", "--quiet", "--ignore-submodules=none", found.head, seconds=TREE_S
    ).ok


def _sort_files(place: Layout, git: Git, found: Unsaved, *, filters: bool) -> None:
    """Separate the files that are blobs of the index from those that exist nowhere else."""
    files, nested = found.contents.files, tuple(f"{each}/" for each in found.contents.nested)
    tracked = {each.path: each for each in found.index if each.stage == 0 and each.mode != MODULE}
    unmerged = {each.path for each in found.index if each.stage}
    changed = set(git.lines("diff-files", "-z", "--name-only", "--ignore-submodules=all"))
    blobs = {path: tracked[path].blob for path in files if path in tracked}
    filtered = _filtered(place, list(blobs))
    # A filter may change bytes but not their number, and a file may have had a filter that it no
    # longer has. With such filters, only the bytes themselves are proof.
    sizes = {} if _has_filters(place) else _sizes(git, blobs.values())
    unlike: dict[str, str] = {}
    for path, about in files.items():
        entry = tracked.get(path)
        if entry is None:
            found.stored.append(path)
            continue
        sure = path not in changed and entry.seen and path not in filtered
        is_same = sure and about.st_size == sizes.get(entry.blob)
        if is_same or blob_id(place.top / path, place.hash_name) == entry.blob:
            found.same[path] = entry.blob
            if mode_of(about) != entry.mode:
                found.stored.append(path)
        elif path in changed or not entry.seen:
            found.stored.append(path)
        else:
            unlike[path] = entry.blob
    if filters:
        _sort_unlike(place, found, unlike, filtered)
    else:
        found.stored += unlike
    found.gone = [
        path
        for path, entry in tracked.items()
        if path not in files and entry.seen and path in changed and not path.startswith(nested)
    ]
    found.gone += [path for path in unmerged if path not in files]


def mode_of(about: os.stat_result) -> str:
    """Return the mode that git has for a file."""
    if stat.S_ISLNK(about.st_mode):
        return _LINK
    return "100755" if about.st_mode & 0o100 else "100644"


def _sizes(git: Git, blobs: Iterable[str]) -> dict[str, int]:
    wanted = sorted(set(blobs))
    if not wanted:
        return {}
    given = "".join(f"{blob}\n" for blob in wanted)
    lines = git("cat-file", "--batch-check=%(objectname) %(objectsize)", given=given).splitlines()
    rows = [line.split(" ") for line in lines]
    return {row[0]: int(row[1]) for row in rows if row[1].isdecimal()}


def _filtered(place: Layout, paths: Sequence[str]) -> set[str]:
    """Return the files whose bytes a filter program creates from those in the repository."""
    if not paths:
        return set()
    said = place.git(
        "check-attr", "-z", "--stdin", "filter", "working-tree-encoding",
        given="\0".join([*paths, ""]),
    ).split("\0")  # fmt: skip
    rows = zip(said[0::3], said[2::3], strict=False)
    return {path for path, value in rows if value not in ("unspecified", "unset")}


def _has_filters(place: Layout) -> bool:
    """Return whether any filter is configured except LFS, which always changes a file's size."""
    words = ("config", "--name-only", "--get-regexp", r"^filter\..*\.(clean|smudge|process)$")
    names = place.git.run(*words).out.splitlines()
    return any(not name.startswith("filter.lfs.") for name in names)


def _sort_unlike(place: Layout, found: Unsaved, unlike: dict[str, str], filtered: set[str]) -> None:
    """Separate files that git restores exactly from those of which it knows only a part.

    Git considers all of these unchanged, because of line endings or a filter.
    """
    if not unlike:
        return
    with tempfile.TemporaryDirectory(prefix="bullpen-", ignore_cleanup_errors=True) as folder:
        place.git.run(
            "checkout-index", "--quiet", "-z", "--stdin", f"--prefix={folder}/",
            given="\0".join([*unlike, ""]), seconds=TREE_S,
        )  # fmt: skip
        for path, blob in unlike.items():
            again = Path(folder) / path
            is_back = again.is_file() and not again.is_symlink()
            name = blob_id(place.top / path, place.hash_name)
            if not is_back or blob_id(again, place.hash_name) != name:
                found.stored.append(path)
            elif path in filtered:
                found.derived[path] = blob
            else:
                found.restyled.append(path)


def _find_ends(place: Layout, found: Unsaved, *, team: str, agent: str, whole: bool) -> None:
    """Find the commits that only this worktree leads to: head, logs, unfinished operations."""
    ours = {f"refs/heads/{branch_of(team, agent)}"}
    if found.branch is not None and found.branch.startswith("refs/heads/bullpen/"):
        ours.add(found.branch)
    ids = _ids_in(
        [place.own / name for name in place.state(whole=whole) if not _NO_IDS.match(name)]
    )
    ids |= _ids_in([place.common / "logs" / ref for ref in ours])
    if found.head is not None:
        ids.add(found.head)
    git = place.git
    for ref in ours:
        tip = git.run("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
        ids |= {tip.out.strip()} if tip.ok else set()
    kinds = kinds_of(git, ids)
    safe = [] if whole else [
        "--not", *(f"--exclude={ref}" for ref in sorted(ours)), "--exclude=refs/worktree/*",
        "--exclude=refs/bisect/*", "--exclude=refs/rewritten/*", "--glob=refs/*",
    ]  # fmt: skip
    found.ends = newest(git, [each for each, kind in kinds.items() if kind == "commit"], safe)
    found.others = {each: kind for each, kind in kinds.items() if kind != "commit"}


def newest(git: Git, commits: Sequence[str], but: Sequence[str]) -> list[str]:
    """Return the commits that no other of them and nothing in `but` leads to."""
    if not commits:
        return []
    lines = git(
        "rev-list", "--topo-order", "--parents", "--stdin", *but,
        given="".join(f"{each}\n" for each in sorted(commits)), seconds=TREE_S,
    ).splitlines()  # fmt: skip
    reached: set[str] = set()
    ends = []
    for line in lines:
        commit, *parents = line.split(" ")
        if commit not in reached:
            ends.append(commit)
        reached.update(parents)
    return ends


def kinds_of(git: Git, ids: Iterable[str]) -> dict[str, str]:
    """Return the kind of each of these objects; missing ones are left out."""
    given = "".join(f"{each}\n" for each in sorted(ids))
    if not given:
        return {}
    lines = git("cat-file", "--batch-check=%(objectname) %(objecttype)", given=given).splitlines()
    rows = [line.split(" ") for line in lines]
    return {row[0]: row[1] for row in rows if row[1] in ("commit", "tree", "blob", "tag")}


def _ids_in(files: Iterable[Path]) -> set[str]:
    """Return everything in files that could be the id of an object."""
    found: set[str] = set()
    for file in files:
        with read_errors(file), suppress(FileNotFoundError):
            if not file.is_symlink():
                found |= {each.decode("ascii") for each in _ID.findall(file.read_bytes())}
    return found


def _settled(place: Layout, found: Unsaved) -> list[str]:
    """Return the submodules that have nothing of their own."""
    links = {entry.path: entry.blob for entry in found.index if entry.mode == MODULE}
    nested = [name for name in found.contents.nested if name in links]
    return [name for name in nested if _is_settled(place.top / name, links[name])]


def _is_settled(module: Path, wanted: str) -> bool:
    """Return whether a submodule has nothing that its repository and remote lack."""
    file = module / ".git"
    own = git_dir_named(file) if file.is_file() else file
    try:
        place = layout_of_module(module, own or file)
    except BullpenError:
        return False
    head = place.git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}").out.strip()
    remote = place.git("for-each-ref", "--format=%(objectname)", "refs/remotes").split()
    if head != wanted or not remote:
        return False
    with raw_git(place.common / "objects", place.top, place.hash_name) as raw:
        git = reading(raw, place.own)
        found = Unsaved(
            head=wanted,
            branch=None,
            contents=contents_of(place),
            index=_entries(git),
            unfinished=unfinished(place.own),
        )
        _sort_files(place, git, found, filters=False)
        found.is_staged = _is_staged(git, found)
        found.settled = _settled(place, found)
        state = [name for name in place.state(whole=True) if not _NO_IDS.match(name)]
        kinds = kinds_of(raw, _ids_in([place.own / name for name in state]) | {wanted})
        commits = [each for each, kind in kinds.items() if kind == "commit"]
        found.ends = newest(raw, commits, ["--not", *remote])
        return not found.is_anything
