"""Lists the agents' worktrees of a repository, complete or not."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bullpen.errors import BullpenError
from bullpen.protocol.agent import Workspace, WorkspaceKind
from bullpen.workspace.git.layout import repository_dir
from bullpen.workspace.git.marks import BranchClaim, Who, claim_file, claim_of, locked, mark_in
from bullpen.workspace.git.ref_names import branch_of, folder_of
from bullpen.workspace.removal.remove import LOCK_S, erase_folder
from bullpen.workspace.trees.clones import lock_of
from bullpen.workspace.trees.set_aside import aside_of, done_with, records, undo_removal

State = Literal["there", "half made", "half removed", "without a folder"]


@dataclass(frozen=True, slots=True)
class Ours:
    """A worktree that was created for an agent."""

    kind: WorkspaceKind
    # The repository; for a clone, its source.
    repository: str
    path: Path
    branch: str | None
    who: Who
    state: State

    @property
    def workspace(self) -> Workspace:
        """Return what `remove` needs to know."""
        return Workspace.new(
            kind=self.kind, repository=self.repository, path=str(self.path), branch=self.branch
        )


def trees_of_ours(repository: Path) -> list[Ours]:
    """Return the linked worktrees of a repository that were created for agents, of any owner.

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
    """Return the clone of an agent at a path, even if it was moved aside; None if there is none.

    `source` is its source as Bullpen knows it: the clone's own word is an agent's word.

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
    """Return the clones of agents in the folder of a repository's worktrees."""
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
    """Put a worktree back whose agent still exists; delete what was saved and given up.

    Raises:
        BullpenError: it is not possible.
    """
    if tree.kind == "clone":
        file, common = lock_of(tree.path), None
    else:
        common = Path(tree.repository)
        file = claim_file(common, tree.who.team, tree.who.agent).with_suffix(".lock")
    with locked(file, f"the worktree at {tree.path}", wait_s=LOCK_S):
        undo_removal(tree.path, common)
        erase_folder(tree.path)


def _ours(common: Path, path: Path, who: Who, *, half_made: bool) -> Ours:
    state: State = "half made" if half_made else "there"
    if os.path.lexists(aside_of(path)) or os.path.lexists(done_with(path)):
        state = "half removed"
    elif not os.path.lexists(path):
        state = "without a folder"
    return Ours("worktree", str(common), path, branch_of(who.team, who.agent), who, state)


def _place(at: Path | None, claim: BranchClaim | None) -> Path | None:
    """Return where a worktree belongs, even if it was moved aside."""
    if at is None:
        return None if claim is None else Path(claim.path)
    for name in (aside_of, done_with):
        start, _, end = name(Path("x")).name.partition("x")
        if at.name.startswith(start) and at.name.endswith(end):
            return at.parent / at.name[len(start) : -len(end)]
    return at


def _claims(common: Path) -> list[BranchClaim]:
    found = []
    for file in sorted((common / "bullpen").glob("*/*.json")):
        with suppress(OSError, ValueError):
            found.append(BranchClaim.parse(json.loads(file.read_bytes())))
    return found
