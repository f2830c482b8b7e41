"""Removes the worktree of an agent after saving it. A kill at any step loses nothing.

Each step can be seen on disk (see `set_aside`); calling `remove` again continues from there.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bullpen.errors import BullpenError, Refused, Unavailable
from bullpen.protocol.agent import Workspace
from bullpen.workspace.git.layout import Layout, layout_of, repository_dir
from bullpen.workspace.git.marks import (
    MARK,
    Who,
    claim_file,
    claim_of,
    drop_claim,
    locked,
    mark_in,
    refuse_others,
)
from bullpen.workspace.git.repository import checkout_of
from bullpen.workspace.git.run_git import Git
from bullpen.workspace.removal.carry_out import carry
from bullpen.workspace.snapshots.contents import Contents
from bullpen.workspace.snapshots.save import Saved, save, verify
from bullpen.workspace.trees import clones
from bullpen.workspace.trees.occupants import refuse_in_use
from bullpen.workspace.trees.set_aside import (
    aside_of,
    done_with,
    erase,
    hold,
    is_same_place,
    lock_reason,
    put_back,
    records,
)
from bullpen.workspace.trees.slots import give_back
from bullpen.workspace.trees.worktrees import link, lock_of

LOCK_S = 10.0
"""How long another process may use a worktree that is to be removed."""


@dataclass(frozen=True, slots=True)
class Removed:
    """A removed worktree: its snapshot, if it held anything, and the branch that was deleted."""

    path: Path
    saved: Saved | None
    branch: str | None


@dataclass(frozen=True, slots=True)
class _Removal:
    """What to remove, whose it is, and why."""

    path: Path
    who: Who
    why: str
    branch: str | None
    # For a clone, its source, where its snapshots are pushed to.
    source: str | None = None

    def keep(self, tree: Path) -> Saved | None:
        """Save what exists only in a worktree, and verify the snapshot."""
        who, whole = self.who, self.source is not None
        kept = save(
            tree,
            team=who.team,
            agent=who.agent,
            why=self.why,
            whole=whole,
            stood=self.path,
            allow=_refuse_what_lies_in,
        )
        if kept is not None:
            verify(tree, kept)
            if self.source is not None:
                return carry(tree, kept, self.source)
        return kept


def remove(workspace: Workspace, *, team: str, agent: str, owner: str, why: str) -> Removed:
    """Remove the worktree of an agent and its branch, after saving what exists nowhere else.

    Raises:
        Refused: it is the user's own checkout (own_tree) or another agent's (tree_taken, not_ours),
            a process uses it (tree_in_use), it is locked (tree_locked), other worktrees or file
            systems are in it (worktree_inside, mount_inside), or it holds too much (too_big). It is
            not changed.
        Unavailable: it cannot be saved or deleted. What is left can be removed later.
    """
    who, path = Who(owner, team, agent), Path(workspace.path)
    if workspace.kind == "shared":
        raise Refused(
            f"{path} is your own checkout, which agents only share.",
            reason="own_tree",
            remedy="Only worktrees that were created for agents can be removed.",
        )
    if workspace.kind == "clone":
        removal = _Removal(path, who, why, None, workspace.repository)
        with locked(clones.lock_of(path), f"the clone at {path}", wait_s=LOCK_S):
            return Removed(path, _remove_clone(removal), None)
    common = repository_dir(_there(workspace))
    removal = _Removal(path, who, why, workspace.branch)
    file = claim_file(common, team, agent).with_suffix(".lock")
    with locked(file, f"the worktree at {path}", wait_s=LOCK_S):
        return _remove_linked(removal, common)


def _there(workspace: Workspace) -> Path:
    """Return a folder from which git finds the repository; the user may have moved the checkout."""
    path = Path(workspace.path)
    known = [Path(workspace.repository), path, aside_of(path), done_with(path)]
    return next((each for each in known if os.path.lexists(each / ".git")), known[0])


def _remove_linked(removal: _Removal, common: Path) -> Removed:
    path, who = removal.path, removal.who
    own = _record(removal, common)
    kept = _take_away(removal, own)
    erase_folder(path)
    with locked(lock_of(common), f"the repository at {common}", wait_s=LOCK_S):
        for each in [*_half_erased(common, who), *([own] if own is not None else [])]:
            _erase_record(each)
            give_back(str(each / MARK))
        branch = _delete_branch(Git(common), removal.branch)
        claim = claim_of(common, who.team, who.agent)
        if claim is not None and claim.who == who:
            drop_claim(common, who.team, who.agent)
    return Removed(path, kept, branch)


def _take_away(removal: _Removal, own: Path | None) -> Saved | None:
    """Bring a worktree to where it may be deleted. Returns the snapshot of its content."""
    path, kept = removal.path, None
    if own is not None and not os.path.lexists(path) and not os.path.lexists(aside_of(path)):
        if os.path.lexists(done_with(path)):
            return None
        # The folder was deleted. Git still knows what was staged, and where its head was.
        _refuse_locked(removal, own)
        hold(own)
        link(aside_of(path), own)
    if os.path.lexists(aside_of(path)):
        kept = _look_again(removal, own)
    if own is not None and os.path.lexists(path):
        kept = _move_aside(removal, own) or kept
        kept = _look_again(removal, own) or kept
    return kept


def _remove_clone(removal: _Removal) -> Saved | None:
    path, kept = removal.path, None
    if os.path.lexists(aside_of(path)):
        _refuse_not_ours(removal, aside_of(path))
        kept = _look_again(removal, None)
    if os.path.lexists(path):
        _refuse_not_ours(removal, path)
        kept = _move_aside(removal, None) or kept
        kept = _look_again(removal, None) or kept
    erase_folder(path)
    give_back(str(path / ".git" / MARK))
    return kept


def _record(removal: _Removal, common: Path) -> Path | None:
    """Return the repository's record of a worktree, if it is this agent's; None if there is none.

    Raises:
        Refused: the worktree at that path is another agent's (tree_taken), or not Bullpen's
            (not_ours).
    """
    for own, at in records(common):
        mark = mark_in(own)
        if at is not None and is_same_place(at, removal.path):
            claim = claim_of(common, removal.who.team, removal.who.agent)
            half_made = mark is None and claim is not None and claim.path == str(at)
            found = claim.who if half_made and claim is not None else mark.who if mark else None
            if found is None:
                raise _not_ours(removal.path)
            refuse_others(found, removal.who, f"The worktree at {removal.path}")
            return own
    if os.path.lexists(removal.path) or os.path.lexists(aside_of(removal.path)):
        raise _not_ours(removal.path)
    return None


def _half_erased(common: Path, who: Who) -> list[Path]:
    """Return what is left of the records of worktrees whose folders are gone."""
    found = []
    for own, at in records(common):
        mark = mark_in(own) if at is None else None
        if mark is not None and mark.who == who:
            found.append(own)
    return found


def _refuse_not_ours(removal: _Removal, path: Path) -> None:
    mark = None if path.is_symlink() else mark_in(path / ".git")
    if mark is None:
        raise _not_ours(path)
    refuse_others(mark.who, removal.who, f"The clone at {path}")


def _not_ours(path: Path) -> Refused:
    return Refused(
        f"{path} is not a worktree that was created for an agent.",
        reason="not_ours",
        remedy="Nothing was changed. If nobody needs it, remove it yourself.",
    )


def _refuse_locked(removal: _Removal, own: Path) -> None:
    reason = lock_reason(own)
    if reason is not None:
        raise Refused(
            f"The worktree {removal.path} is locked: {reason or 'no reason is given'}.",
            reason="tree_locked",
            remedy=f"Run: git worktree unlock '{removal.path}'",
        )


def _refuse_what_lies_in(place: Layout, contents: Contents) -> None:
    """Refuse to remove a worktree that contains something of somebody else."""
    if contents.mounts:
        raise Refused(
            f"File systems are mounted in the worktree {place.top}: "
            f"{', '.join(contents.mounts[:5])}.",
            reason="mount_inside",
            remedy="Unmount them first.",
        )
    others = [str(place.top / name) for name in contents.strangers]
    if not place.is_linked:
        others += [str(at) for _, at in records(place.own) if at is not None and at.exists()]
    if others:
        raise Refused(
            f"The worktree {place.top} contains other worktrees: {', '.join(others[:5])}.",
            reason="worktree_inside",
            remedy="Remove them first: git worktree remove PATH",
        )


def _move_aside(removal: _Removal, own: Path | None) -> Saved | None:
    """Save a worktree, then move it to where nobody finds it by its path."""
    path = removal.path
    if own is not None:
        _refuse_locked(removal, own)
    if path.is_symlink():
        raise _not_ours(path)
    refuse_in_use(path)
    if own is not None and not layout_of(path).own.samefile(own):
        raise _not_ours(path)
    kept = removal.keep(path)
    if own is not None:
        hold(own)
    _rename(path, aside_of(path))
    return kept


def _look_again(removal: _Removal, own: Path | None) -> Saved | None:
    """Check that no process moved along, and save what is new. Then it may be deleted."""
    aside = aside_of(removal.path)
    try:
        refuse_in_use(aside, removal.path)
        kept = removal.keep(aside)
    except BullpenError:
        # A folder that Bullpen created for a deleted one is of no use to anybody.
        if os.listdir(aside) == [".git"]:
            erase(aside)
        put_back(removal.path, own)
        raise
    erase_folder(removal.path)
    _rename(aside, done_with(removal.path))
    return kept


def _rename(path: Path, to: Path) -> None:
    try:
        os.rename(path, to)
    except OSError as error:
        raise Unavailable(
            f"{path} cannot be moved: {error.strerror}.",
            remedy="Check the permissions of its folder, then try again.",
        ) from None


def erase_folder(path: Path) -> None:
    """Delete what was moved away for good. Links are not followed."""
    folder = done_with(path)
    if not os.path.lexists(folder):
        return
    refuse_in_use(folder, path)
    try:
        erase(folder)
    except OSError as error:
        raise Unavailable(
            f"{folder} cannot be deleted: {error.strerror}. Its content is saved.",
            remedy="Check its permissions, then try again.",
        ) from None
    # The folders of the team, if this was its last worktree.
    with suppress(OSError):
        path.parent.rmdir()
        path.parent.parent.rmdir()


def _erase_record(own: Path) -> None:
    """Make git forget a worktree. The mark goes last, so that the rest is found after a kill."""
    for name in ["gitdir", *sorted(os.listdir(own))]:
        file = own / name
        if name == MARK:
            continue
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        else:
            file.unlink(missing_ok=True)
    (own / MARK).unlink(missing_ok=True)
    own.rmdir()
    with suppress(OSError):
        own.parent.rmdir()


def _delete_branch(git: Git, branch: str | None) -> str | None:
    """Delete a branch whose commits other refs also lead to; None if it stays or is gone."""
    ref = f"refs/heads/{branch}"
    tip = git.run("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    if branch is None or not tip.ok:
        return None
    alone = git("rev-list", "-n1", tip.out.strip(), "--not", f"--exclude={ref}", "--glob=refs/*")
    if alone or checkout_of(git.where, branch) is not None:
        return None
    # Only if it has not moved since.
    deleted = git.run("update-ref", "-m", "bullpen: removed", "-d", ref, tip.out.strip())
    return branch if deleted.ok else None
