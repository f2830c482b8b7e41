"""The target branch: finds it, and moves it forward without overwriting anybody's changes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bullpen.errors import Refused, Unavailable
from bullpen.workspace.git.run_git import TREE_S, Git

_PATHS_SHOWN_MAX = 20
_REBASES = ("rebase-merge/head-name", "rebase-apply/head-name")


@dataclass(frozen=True, slots=True)
class Target:
    """The branch that work is merged into: its commit, tree, and where it is checked out."""

    branch: str
    commit: str
    commit_tree: str
    tree: Path | None

    @property
    def ref(self) -> str:
        """Return the full name of the branch."""
        return f"refs/heads/{self.branch}"


def target_of(git: Git, branch: str) -> Target:
    """Return where the target is now. Raises Refused (no_target)."""
    ref = f"refs/heads/{branch}"
    form = "--format=%(objectname)%00%(tree)%00%(refname)%00%(worktreepath)"
    commit, commit_tree, name, tree = f"{git('for-each-ref', form, ref)}\0\0\0".split("\0")[:4]
    if name == ref:
        return Target(branch, commit, commit_tree, Path(tree) if tree else None)
    raise Refused(
        f"The target branch {branch!r} does not exist in {git.where}.",
        reason="no_target",
        remedy=f"Create it (git branch {branch}), or choose another: bullpen merge set --target "
        "BRANCH",
    )


@dataclass(frozen=True, slots=True)
class InTheWay:
    """Why the target cannot move now. The queue tries again later."""

    words: str
    # The changed files that are in the way, if it is files.
    paths: tuple[str, ...] = ()


def forward(git: Git, common: Path, old: Target, new: str, *, why: str) -> bool | InTheWay:
    """Move the target from its last known commit to a later one.

    False if it has moved since. In the worktree where it is checked out, the files are updated;
    changes there are kept, or block the move.

    Raises:
        Unavailable: somebody checked out another branch at that very moment.
    """
    if new == old.commit:
        return target_of(git, old.branch).commit == new
    if (where := _rebased_in(common, old.ref)) is not None:
        return InTheWay(f"{old.branch} is being rebased in {where}")
    if old.tree is not None and _branch_in(old.tree) == old.ref:
        return _in_tree(git, old.tree, old, new, why=why)
    # It is not checked out, or somebody switched branches meanwhile.
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
    options = ("--ff-only", "--quiet", "--no-autostash", "--no-overwrite-ignore", "--no-stat")
    ran = there.run("merge", *options, "--no-verify-signatures", new, seconds=TREE_S)
    if not ran.ok:
        if target_of(git, old.branch).commit != old.commit:
            return False
        paths = [line.strip() for line in ran.err.splitlines() if line.startswith("\t")]
        if paths:
            more = f" and {len(paths) - _PATHS_SHOWN_MAX} more" * (len(paths) > _PATHS_SHOWN_MAX)
            shown = ", ".join(paths[:_PATHS_SHOWN_MAX])
            words = f"changes in {tree} are in the way: {shown}{more}"
            return InTheWay(words, tuple(paths))
        return InTheWay(f"git says in {tree}: {ran.err.strip()}")
    if _branch_in(tree) != old.ref and target_of(git, old.branch).commit != new:
        # Between two checks, somebody switched that worktree to another branch.
        raise Unavailable(
            f"{tree} was switched away from {old.branch} while the queue moved it: the branch "
            f"that is checked out there now may have been moved to {new[:12]} instead.",
            remedy=f"Check it (git -C {tree} reflog), then let the queue continue.",
        )
    return True


def _branch_in(tree: Path) -> str | None:
    """Return the branch that is checked out in a worktree, according to its files, or None."""
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
    """Return the git dir of a worktree in which somebody is rebasing that branch."""
    for git_dir in (common, *sorted(common.glob("worktrees/*"))):
        for name in _REBASES:
            try:
                found = (git_dir / name).read_text(encoding="utf-8", errors="replace").strip()
            except OSError:
                continue
            if found == ref:
                return str(git_dir)
    return None
