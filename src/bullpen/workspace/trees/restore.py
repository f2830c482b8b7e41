"""Restores a snapshot as a worktree, in an empty place."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bullpen.errors import BullpenError, NotFound, Refused, Unavailable, Unreadable
from bullpen.workspace.git.layout import Layout, layout_of, repository_dir
from bullpen.workspace.git.raw import fresh_index, raw_git
from bullpen.workspace.git.ref_names import REFS
from bullpen.workspace.git.run_git import TREE_S, Git
from bullpen.workspace.snapshots.build import FORM, REST
from bullpen.workspace.snapshots.pack import unpack
from bullpen.workspace.snapshots.save import Saved, saved
from bullpen.workspace.snapshots.unsaved import blob_id
from bullpen.workspace.trees.set_aside import erase


@dataclass(frozen=True, slots=True)
class Restored:
    """A restored worktree. It belongs to nobody and is on no branch."""

    path: Path
    snapshot: Saved
    # What differs from before, in words.
    lacks: tuple[str, ...] = ()


def restore(repository: Path, ref: str, into: Path) -> Restored:
    """Restore a snapshot as a separate worktree, byte for byte; `into` must be empty.

    A worktree becomes a linked worktree of the repository with its head detached, a clone becomes a
    repository.

    Raises:
        NotFound: there is no such snapshot.
        Refused: something is at `into` (not_empty), or there is no repository (no_repository).
        Unavailable: it cannot be read or written; then nothing is left at `into`.
    """
    common = repository_dir(repository)
    snapshot = find(common, ref)
    into = Path(os.path.abspath(into))
    was_there = _refuse_not_empty(into)
    note = _note(Git(common), snapshot)
    try:
        into.parent.mkdir(parents=True, exist_ok=True)
        if note["kind"] == "repository":
            own = _new_repository(common, snapshot, into)
        else:
            own = _new_tree(common, snapshot, note, into)
        lacks = _fill(layout_of(into), own, snapshot, note)
    except BaseException as error:
        _undo(common, into, was_there=was_there)
        if isinstance(error, OSError):
            raise Unavailable(
                f"{snapshot.ref} cannot be restored to {into}: {error.strerror or error}.",
                remedy="Free some space or allow writing there, or choose another place.",
            ) from None
        raise
    left_out = [f"{name} could not be saved" for name in snapshot.left_out]
    return Restored(into, snapshot, (*lacks, *left_out))


def find(repository: Path, ref: str) -> Saved:
    """Return the snapshot of a ref, its end (`TEAM/AGENT/3`), or a commit. Raises NotFound."""
    rows = saved(repository)
    full = ref if ref.startswith(f"{REFS}/") else f"{REFS}/{ref}"
    found = [row for row in rows if row.ref == full]
    if not found and len(ref) >= 7:
        found = [row for row in rows if row.commit.startswith(ref)][:1]
    if len(found) != 1:
        raise NotFound(
            f"There is no snapshot {ref!r} in {repository}.",
            remedy="List the snapshots: bullpen workspace saved",
        )
    return found[0]


def _refuse_not_empty(into: Path) -> bool:
    """Return whether there is an empty folder. Anything else is refused."""
    if not os.path.lexists(into):
        return False
    if into.is_symlink() or not into.is_dir() or any(into.iterdir()):
        raise Refused(
            f"{into} already exists, and nothing is overwritten.",
            reason="not_empty",
            remedy="Choose a path that does not exist.",
        )
    return True


def _note(git: Git, snapshot: Saved) -> dict[str, Any]:
    ran = git.run("cat-file", "blob", f"{snapshot.commit}{REST}:note.json")
    try:
        note = json.loads(ran.out)
        form = note["form"]
    except (ValueError, KeyError, TypeError):
        raise Unreadable(snapshot.ref, "it is not a snapshot", remedy="Show it: git show") from None
    if form != FORM:
        raise Unreadable(
            snapshot.ref,
            f"its format is {form}, but this version supports {FORM}",
            remedy="Use the version of Bullpen that created it, or a newer one.",
        )
    return dict(note)


def _new_tree(common: Path, snapshot: Saved, note: Mapping[str, Any], into: Path) -> Path:
    git = Git(common)
    words = ("worktree", "add", "--quiet", "--detach", "--no-checkout", "--force", str(into))
    git(*words, note["head"] or f"{snapshot.commit}^1", seconds=TREE_S)
    own = layout_of(into).own
    branch = note["branch"]
    if note["head"] is None and branch and not git.run("rev-parse", "--verify", branch).ok:
        # Nothing was committed on its branch yet.
        Git(into)("symbolic-ref", "HEAD", branch)
    return own


def _new_repository(common: Path, snapshot: Saved, into: Path) -> Path:
    into.mkdir(exist_ok=True)
    git = Git(into)
    hashes = Git(common)("rev-parse", "--show-object-format")
    git("init", "--quiet", f"--object-format={hashes}", "--template=")
    git("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", str(common), snapshot.ref,
        seconds=TREE_S)  # fmt: skip
    return into / ".git"


def _fill(place: Layout, own: Path, snapshot: Saved, note: Mapping[str, Any]) -> list[str]:
    """Put everything in its place: files, packed content, folders, permissions, links."""
    with raw_git(place.common / "objects", place.top, place.hash_name) as raw:
        git = fresh_index(raw, "restored")
        git("read-tree", snapshot.commit, seconds=TREE_S)
        git("checkout-index", "--all", "--force", "--quiet", seconds=TREE_S)
        texts = unpack(raw, note["blobs"], {"tree": place.top, "own": own})
        for name, text in texts.items():
            if name.startswith("tag/"):
                given = text.decode("utf-8", "surrogateescape")
                raw("hash-object", "-w", "-t", "tag", "--literally", "--stdin", given=given)
    for name in note["empty"]:
        _inside(place.top, name).mkdir(parents=True, exist_ok=True)
    _relink(place.top, own, note["links"])
    lacks = _derive(place, snapshot, note["derived"])
    for name, mode in note["modes"].items():
        _inside(place.top, name).chmod(mode)
    for name, mode in sorted(note["folders"].items(), reverse=True):
        _inside(place.top, name).chmod(mode)
    return lacks


def _inside(top: Path, name: str) -> Path:
    """Return a path below a folder that does not lead outside it. Raises Unreadable."""
    path = top / name
    ways = [path, *path.parents]
    is_below = top in ways and ".." not in path.parts
    if not is_below or any(each.is_symlink() for each in ways[: ways.index(top)]):
        raise Unreadable("the snapshot", f"{name!r} leads outside it", remedy="Do not trust it.")
    return path


def _relink(top: Path, own: Path, links: list[list[str]]) -> None:
    """Tell submodules and inner worktrees where their git dirs are now."""
    roots = {"own": own, "tree": top}
    for where, kind, target, back in links:
        file, git_dir = _inside(top, where), _inside(roots[kind], target)
        name = os.path.relpath(git_dir, file.parent)
        file.write_text(f"gitdir: {name}\n", "utf-8", "surrogateescape")
        if (git_dir / "gitdir").is_file():
            (git_dir / "gitdir").write_text(f"{file}\n", "utf-8", "surrogateescape")
        if back in ("config", "config.worktree"):
            tree = os.path.relpath(file.parent, git_dir)
            Git(top)("config", "--file", str(git_dir / back), "core.worktree", tree)


def _derive(place: Layout, snapshot: Saved, paths: Mapping[str, str]) -> list[str]:
    """Let the user's filters create the files they had created. Returns which files differ."""
    if not paths:
        return []
    if not place.is_linked or not place.filters_are_users:
        return [f"{path} is created by a filter that is not yours" for path in paths]
    for path in paths:
        _inside(place.top, path).unlink(missing_ok=True)
    ran = place.git.run(
        "checkout-index", "--force", "--quiet", "-z", "--stdin",
        given="\0".join([*paths, ""]), seconds=TREE_S,
    )  # fmt: skip
    lacks = []
    for path, name in paths.items():
        with suppress(BullpenError):
            if blob_id(place.top / path, place.hash_name) == name:
                continue
        why = ran.err.strip()[-200:] or "it produces different bytes now"
        lacks.append(f"{path} is created by a filter ({why}); git show {snapshot.ref}:{path}")
    return lacks


def _undo(common: Path, into: Path, *, was_there: bool) -> None:
    """Remove everything of a worktree that could not be restored; all of it is new."""
    record: Path | None = None
    with suppress(BullpenError, OSError):
        place = layout_of(into)
        record = place.own if place.is_linked and place.common == common else None
    if into.is_dir() and not into.is_symlink():
        with suppress(OSError):
            erase(into)
    if record is not None:
        shutil.rmtree(record, ignore_errors=True)
    if was_there:
        into.mkdir(exist_ok=True)
