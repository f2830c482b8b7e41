"""Which trees of ours a repository has, also half made, half removed and without a folder."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bullpen.errors import BullpenError
from bullpen.protocol.workspace import Workspace, WorkspaceKind
from bullpen.workspace.aside import aside_of, done_with, records, undo_removal
from bullpen.workspace.clones import lock_of
from bullpen.workspace.layout import repository_dir
from bullpen.workspace.marks import Claim, Who, claim_file, claim_of, locked, mark_in
from bullpen.workspace.names import branch_of, folder_of
from bullpen.workspace.removing import LOCK_S, Removed, erase_folder, remove

State = Literal["there", "half made", "half removed", "without a folder"]


@dataclass(frozen=True, slots=True)
class Ours:
    """A tree that was made for an agent."""

    kind: WorkspaceKind
    # Where the repository is, of a clone what it came from.
    repository: str
    path: Path
    branch: str | None
    who: Who
    state: State

    @property
    def workspace(self) -> Workspace:
        """What `remove` wants to know."""
        return Workspace.new(
            kind=self.kind, repository=self.repository, path=str(self.path), branch=self.branch
        )


def trees_of_ours(repository: Path) -> list[Ours]:
    """The linked trees of a repository that were made for agents, whoever they belong to.

    Raises:
        Refused: there is no repository (no_repository).
    """
    common = repository_dir(repository)
    found: dict[Who, Ours] = {}
    for own, at in sorted(records(common), key=lambda row: row[1] is not None):
        with suppress(BullpenError):
            mark = mark_in(own)
            if mark is not None:
                claim = claim_of(common, mark.team, mark.agent)
                path = _place(at, claim)
                if path is not None:
                    found[mark.who] = _ours(common, path, mark.who, half_made=not mark.ready)
    for claim in _claims(common):
        if claim.who not in found:
            found[claim.who] = _ours(common, Path(claim.path), claim.who, half_made=True)
    return list(found.values())


def clone_of_ours(path: Path, source: str) -> Ours | None:
    """The clone of an agent at a path, also if it was moved aside; None if there is none.

    `source` is what it came from, as we know it: what the clone says is an agent's word.

    Raises:
        Unreadable: its mark cannot be read.
    """
    for folder in (path, aside_of(path), done_with(path)):
        mark = None if folder.is_symlink() else mark_in(folder / ".git")
        if mark is not None and mark.kind == "clone":
            state: State = "half removed" if folder != path else "there"
            return Ours("clone", source, path, None, mark.who, state)
    return None


def clones_beside(repository: Path) -> list[Ours]:
    """The clones of agents in the folder where trees of a repository are made."""
    common = repository_dir(repository)
    top = common.parent if common.name == ".git" else common
    found = []
    for path in sorted((top.parent / folder_of(top.name, "x")).parent.glob("*/*")):
        with suppress(BullpenError):
            clone = clone_of_ours(path, str(top))
            if clone is not None:
                found.append(clone)
    return found


def finish(tree: Ours) -> None:
    """Put a tree back whose agent is still there; delete what was kept and given up.

    Raises:
        BullpenError: it cannot be done.
    """
    if tree.kind == "clone":
        file, common = lock_of(tree.path), None
    else:
        common = Path(tree.repository)
        file = claim_file(common, tree.who.team, tree.who.agent).with_suffix(".lock")
    with locked(file, f"the tree at {tree.path}", wait_s=LOCK_S):
        undo_removal(tree.path, common)
        erase_folder(tree.path)


def prune(repository: Path, owner: str) -> list[Removed]:
    """Let a repository forget the trees of an owner whose folders are gone, and no others.

    What git still knew of them, staged content and commits, is kept in snapshots.

    Raises:
        BullpenError: one of them cannot be removed.
    """
    return [
        remove(
            tree.workspace,
            team=tree.who.team,
            agent=tree.who.agent,
            owner=owner,
            why="its folder is gone",
        )
        for tree in trees_of_ours(repository)
        if tree.who.owner == owner and tree.state == "without a folder"
    ]


def _ours(common: Path, path: Path, who: Who, *, half_made: bool) -> Ours:
    state: State = "half made" if half_made else "there"
    if os.path.lexists(aside_of(path)) or os.path.lexists(done_with(path)):
        state = "half removed"
    elif not os.path.lexists(path):
        state = "without a folder"
    return Ours("worktree", str(common), path, branch_of(who.team, who.agent), who, state)


def _place(at: Path | None, claim: Claim | None) -> Path | None:
    """Where a tree belongs, also if it was moved aside."""
    if at is None:
        return None if claim is None else Path(claim.path)
    for name in (aside_of, done_with):
        start, _, end = name(Path("x")).name.partition("x")
        if at.name.startswith(start) and at.name.endswith(end):
            return at.parent / at.name[len(start) : -len(end)]
    return at


def _claims(common: Path) -> list[Claim]:
    found = []
    for file in sorted((common / "bullpen").glob("*/*.json")):
        with suppress(OSError, ValueError):
            found.append(Claim.parse(json.loads(file.read_bytes())))
    return found
