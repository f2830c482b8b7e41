"""The target: where it is, and moving it forward without taking anything from anybody."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bullpen.errors import Refused, Unavailable
from bullpen.workspace.git import TREE_S, Git

_PATHS_SHOWN_MAX = 20
_REBASES = ("rebase-merge/head-name", "rebase-apply/head-name")


@dataclass(frozen=True, slots=True)
class Target:
    """The branch that work goes to: its commit, that one's tree, and where it is checked out."""

    branch: str
    commit: str
    commit_tree: str
    tree: Path | None

    @property
    def ref(self) -> str:
        """The full name of the branch."""
        return f"refs/heads/{self.branch}"


def target_of(git: Git, branch: str) -> Target:
    """Where the target is now.

    Raises:
        Refused: no_target.
    """
    ref = f"refs/heads/{branch}"
    form = "--format=%(objectname)%00%(tree)%00%(refname)%00%(worktreepath)"
    commit, commit_tree, name, tree = f"{git('for-each-ref', form, ref)}\0\0\0".split("\0")[:4]
    if name == ref:
        return Target(branch, commit, commit_tree, Path(tree) if tree else None)
    raise Refused(
        f"There is no branch {branch!r} in {git.where}, where finished work is to go.",
        reason="no_target",
        remedy=f"Make it (git branch {branch}), or name another: bullpen merge set --target BRANCH",
    )


@dataclass(frozen=True, slots=True)
class InTheWay:
    """Why the target cannot move now. It is tried again later."""

    words: str


def forward(git: Git, common: Path, old: Target, new: str, *, why: str) -> bool | InTheWay:
    """Move the target from where it was found to a commit that comes after it.

    False if it is somewhere else by now. In the tree that it is checked out in, the files are
    moved along; what somebody changed there stays as it is, or is in the way.

    Raises:
        Unavailable: somebody checked out another branch in that very moment.
    """
    if new == old.commit:
        return target_of(git, old.branch).commit == new
    if (where := _rebased_in(common, old.ref)) is not None:
        return InTheWay(f"{old.branch} is being rebased in {where}")
    if old.tree is not None and _branch_in(old.tree) == old.ref:
        return _in_tree(git, old.tree, old, new, why=why)
    # Nobody has it checked out, or somebody switched branches meanwhile.
    now = target_of(git, old.branch)
    if now.commit != old.commit:
        return False
    if now.tree is not None:
        return _in_tree(git, now.tree, old, new, why=why)
    moved = git.run("update-ref", "-m", why, now.ref, new, old.commit)
    if not moved.ok and target_of(git, old.branch).commit == old.commit:
        return InTheWay(f"git says: {moved.err.strip()}")
    return moved.ok


def _in_tree(git: Git, tree: Path, old: Target, new: str, *, why: str) -> bool | InTheWay:
    there = git.at(tree).with_env(GIT_REFLOG_ACTION=why)
    words = ("--ff-only", "--quiet", "--no-autostash", "--no-overwrite-ignore", "--no-stat")
    ran = there.run("merge", *words, "--no-verify-signatures", new, seconds=TREE_S)
    if not ran.ok:
        if target_of(git, old.branch).commit != old.commit:
            return False
        paths = [line.strip() for line in ran.err.splitlines() if line.startswith("\t")]
        if paths:
            more = f" and {len(paths) - _PATHS_SHOWN_MAX} more" * (len(paths) > _PATHS_SHOWN_MAX)
            shown = ", ".join(paths[:_PATHS_SHOWN_MAX])
            return InTheWay(f"changes in {tree} are in the way: {shown}{more}")
        return InTheWay(f"git says in {tree}: {ran.err.strip()}")
    if _branch_in(tree) != old.ref and target_of(git, old.branch).commit != new:
        # Between two looks of ours somebody switched that tree to another branch.
        raise Unavailable(
            f"{tree} was switched away from {old.branch} while it was moved: the branch that is"
            f" checked out there now may have been moved to {new[:12]} instead.",
            remedy=f"Look at it (git -C {tree} reflog), then let the queue go on.",
        )
    return True


def _branch_in(tree: Path) -> str | None:
    """The branch that is checked out in a tree, as its files say; None if they do not."""
    try:
        git_dir = tree / ".git"
        if git_dir.is_file():
            link = git_dir.read_text(encoding="utf-8", errors="surrogateescape")
            git_dir = tree / link.removeprefix("gitdir: ").rstrip("\n")
        head = (git_dir / "HEAD").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    return head.removeprefix("ref: ").rstrip("\n") if head.startswith("ref: ") else None


def _rebased_in(common: Path, ref: str) -> str | None:
    """The git directory of a tree in which somebody is rebasing that branch."""
    for git_dir in (common, *sorted(common.glob("worktrees/*"))):
        for name in _REBASES:
            try:
                found = (git_dir / name).read_text(encoding="utf-8", errors="replace").strip()
            except OSError:
                continue
            if found == ref:
                return str(git_dir)
    return None
