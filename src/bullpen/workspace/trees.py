"""The tree of an agent, from plan to ready. Everything here blocks: call it from a thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bullpen.errors import BullpenError, Refused, Unavailable
from bullpen.protocol.workspace import Workspace
from bullpen.workspace import clones, worktrees
from bullpen.workspace.aside import undo_removal
from bullpen.workspace.filling import Filling
from bullpen.workspace.git import Git
from bullpen.workspace.marks import MARK, Mark, Who, claim_file, locked, mark_in, put_mark
from bullpen.workspace.plans import plan as plan
from bullpen.workspace.repository import common_dir, git_dir
from bullpen.workspace.surroundings import give_back, take_slot
from bullpen.workspace.worktrees import Tree, path_taken


@dataclass(frozen=True, slots=True)
class Prepared:
    """A tree that an agent may work in: where it works, what it is told, whether it is new."""

    cwd: str
    env: dict[str, str]
    made: bool


def prepare(
    workspace: Workspace,
    *,
    team: str,
    agent: str,
    owner: str,
    environ: Mapping[str, str] | None = None,
) -> Prepared:
    """Make the tree of an agent, or find it again as it is. Whoever was killed at it is no matter.

    `owner` names the home and team. `environ` is what the user's hook and set-up command get beside
    the surroundings; without it that is the path, the home and the like, and no key.

    Raises:
        Refused: it cannot be had; `reason` says why.
        Unavailable: git fails, there is no room, or somebody else is busy with it.
    """
    who = Who(owner, team, agent)
    if workspace.kind == "shared":
        slot = take_slot(_key(workspace, who), Path(workspace.path))
        return Prepared(_cwd(workspace), slot.env(workspace.path), made=False)
    if workspace.kind == "clone":
        path = Path(workspace.path)
        with locked(clones.lock_of(path), f"the clone at {path}") as held:
            undo_removal(path)
            tree = clones.obtain(workspace, who, held)
            undo = partial(clones.undo, tree)
            return _finished(tree, Filling(workspace, tree.git_dir, {}, environ, held), undo)
    common = _common(workspace)
    lock = claim_file(common, team, agent).with_suffix(".lock")
    with locked(lock, f"the tree at {workspace.path}") as held:
        undo_removal(Path(workspace.path), common)
        tree = worktrees.obtain(workspace, common, who)
        undo = partial(worktrees.undo, tree, workspace, common)
        done = partial(worktrees.set_worked, common, who)
        return _finished(tree, Filling(workspace, tree.git_dir, {}, environ, held), undo, done)


def mark_of(tree: Path) -> Mark | None:
    """Whose a tree is; None if it is none of ours.

    Raises:
        Unavailable: it is no tree at all, or its mark cannot be read.
    """
    return mark_in(git_dir(tree))


def let_go(workspace: Workspace, *, team: str, agent: str, owner: str, git_dir: Path) -> None:
    """Free the ports and the temporary folder of a tree that is removed or not worked in any more.

    `git_dir` is, or was, that of the tree.
    """
    give_back(_key(workspace, Who(owner, team, agent), git_dir))


def _common(workspace: Workspace) -> Path:
    """What the repository's trees have in common; the user's own need not be there any more."""
    known = [Path(workspace.repository), Path(workspace.path)]
    there = next((path for path in known if os.path.lexists(path / ".git")), known[0])
    return common_dir(there)


def _key(workspace: Workspace, who: Who, git_dir: Path | None = None) -> str:
    """What a slot is kept for: a tree, or an agent in a tree that it shares."""
    if workspace.kind == "shared" or git_dir is None:
        return f"{who.owner}/{who.team}/{who.agent} in {workspace.path}"
    return str(git_dir / MARK)


def _finished(
    tree: Tree,
    filling: Filling,
    undo: Callable[[], None],
    done: Callable[[], None] = lambda: None,
) -> Prepared:
    """Make a tree ready; one that cannot be filled is not left half made."""
    key = str(tree.git_dir / MARK)
    mark = tree.mark
    try:
        slot = take_slot(key, tree.git_dir / MARK, wanted=mark.slot)
        if mark.slot != slot.number:
            mark = put_mark(tree.git_dir, mark.evolve(slot=slot.number))
        filling = replace(filling, env=slot.env(filling.workspace.path))
        mark = filling.fill(mark)
    except BullpenError:
        # Only what nobody can have worked in: a tree that was made just now, or not even filled.
        if tree.made or "hook" in tree.mark.todo:
            undo()
        if not os.path.lexists(tree.git_dir / MARK):
            give_back(key)
        raise
    done()
    filling.set_up(mark)
    if not tree.made:
        _refuse_another_top(filling.workspace)
    return Prepared(_cwd(filling.workspace), dict(filling.env), tree.made)


def _refuse_another_top(workspace: Workspace) -> None:
    """What git takes for the tree is the tree, and nothing above it or elsewhere."""
    top = Git(Path(workspace.path))("rev-parse", "--show-toplevel")
    if os.path.realpath(top) != os.path.realpath(workspace.path):
        raise path_taken(Path(workspace.path), f"git works in {top} there")


def _cwd(workspace: Workspace) -> str:
    """Where in its tree an agent works. A link there must not lead it out of the tree."""
    cwd = Path(workspace.path, workspace.inside)
    top = Path(workspace.path).resolve()
    if not cwd.resolve().is_relative_to(top):
        raise Refused(
            f"{cwd} leads out of the tree at {workspace.path}, to {cwd.resolve()}.",
            reason="leads_out",
            remedy="Put a directory in its place.",
        )
    if workspace.kind != "shared":
        cwd.mkdir(parents=True, exist_ok=True)
    if not cwd.is_dir():
        raise Unavailable(
            f"The directory {cwd} is not there any more.",
            remedy="Make it again, or work elsewhere.",
        )
    return str(cwd)
