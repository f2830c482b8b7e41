"""The worktree of an agent, from plan to ready. Everything here blocks: call it from a thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bullpen.errors import BullpenError, Refused, Unavailable
from bullpen.protocol.agent import Workspace
from bullpen.workspace.git.marks import MARK, TreeMark, Who, claim_file, locked, mark_in, put_mark
from bullpen.workspace.git.repository import common_dir, git_dir
from bullpen.workspace.git.run_git import Git
from bullpen.workspace.trees import clones, worktrees
from bullpen.workspace.trees.choose_tree import plan as plan
from bullpen.workspace.trees.set_aside import undo_removal
from bullpen.workspace.trees.setup import WorktreeSetup
from bullpen.workspace.trees.slots import give_back, take_slot
from bullpen.workspace.trees.worktrees import Tree, path_taken


@dataclass(frozen=True, slots=True)
class Prepared:
    """A worktree that is ready: where the agent works, what it is told, whether it is new."""

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
    """Create the worktree of an agent, or find it again. Continues after an earlier kill.

    `owner` names the home and team. `environ` is what the user's hook and setup command get in
    addition to the slot; by default the path, the home and the like, without keys.

    Raises:
        Refused: it is not possible; `reason` says why.
        Unavailable: git fails, there is no space, or another process uses it.
    """
    who = Who(owner, team, agent)
    if workspace.kind == "shared":
        key = f"{owner}/{team}/{agent} in {workspace.path}"
        slot = take_slot(key, Path(workspace.path))
        return Prepared(_cwd(workspace), slot.env(workspace.path), made=False)
    if workspace.kind == "clone":
        path = Path(workspace.path)
        with locked(clones.lock_of(path), f"the clone at {path}") as held:
            undo_removal(path)
            tree = clones.obtain(workspace, who, held)
            setup = WorktreeSetup(workspace, tree.git_dir, {}, environ, held)
            return _finished(tree, setup, partial(clones.undo, tree))
    common = _common(workspace)
    lock = claim_file(common, team, agent).with_suffix(".lock")
    with locked(lock, f"the worktree at {workspace.path}") as held:
        undo_removal(Path(workspace.path), common)
        tree = worktrees.obtain(workspace, common, who)
        undo = partial(worktrees.undo, tree, workspace, common)
        done = partial(worktrees.set_worked, common, who)
        setup = WorktreeSetup(workspace, tree.git_dir, {}, environ, held)
        return _finished(tree, setup, undo, done)


def mark_of(tree: Path) -> TreeMark | None:
    """Return the mark of a worktree; None if it is not Bullpen's. Raises Unavailable."""
    return mark_in(git_dir(tree))


def _common(workspace: Workspace) -> Path:
    """Return the git dir that the worktrees share; the user's own checkout may be gone."""
    known = [Path(workspace.repository), Path(workspace.path)]
    there = next((path for path in known if os.path.lexists(path / ".git")), known[0])
    return common_dir(there)


def _finished(
    tree: Tree,
    filling: WorktreeSetup,
    undo: Callable[[], None],
    done: Callable[[], None] = lambda: None,
) -> Prepared:
    """Make a worktree ready. One that cannot be filled is not left incomplete."""
    key = str(tree.git_dir / MARK)
    mark = tree.mark
    try:
        slot = take_slot(key, tree.git_dir / MARK, wanted=mark.slot)
        if mark.slot != slot.number:
            mark = put_mark(tree.git_dir, mark.evolve(slot=slot.number))
        filling = replace(filling, env=slot.env(filling.workspace.path))
        mark = filling.fill(mark)
    except BullpenError:
        # Only if nobody can have worked in it: it is new, or was never filled.
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
    """Refuse if git takes another folder, above or elsewhere, for the worktree."""
    top = Git(Path(workspace.path))("rev-parse", "--show-toplevel")
    if os.path.realpath(top) != os.path.realpath(workspace.path):
        raise path_taken(Path(workspace.path), f"git works in {top} there")


def _cwd(workspace: Workspace) -> str:
    """Return where in its worktree an agent works. A link must not lead outside it."""
    cwd = Path(workspace.path, workspace.inside)
    top = Path(workspace.path).resolve()
    if not cwd.resolve().is_relative_to(top):
        raise Refused(
            f"{cwd} leads outside the worktree at {workspace.path}, to {cwd.resolve()}.",
            reason="leads_out",
            remedy="Replace it with a directory.",
        )
    if workspace.kind != "shared":
        cwd.mkdir(parents=True, exist_ok=True)
    if not cwd.is_dir():
        raise Unavailable(
            f"The directory {cwd} no longer exists.",
            remedy="Create it again, or work elsewhere.",
        )
    return str(cwd)
