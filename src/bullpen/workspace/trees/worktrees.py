"""Linked worktrees: created beside the user's checkout, and found again."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bullpen.errors import Refused, Unavailable
from bullpen.protocol.agent import Workspace
from bullpen.workspace.git.marks import (
    BranchClaim,
    TreeMark,
    Who,
    claim_of,
    drop_claim,
    locked,
    mark_in,
    put_claim,
    put_mark,
    refuse_others,
    write_errors,
)
from bullpen.workspace.git.repository import checkout_of, commit_of
from bullpen.workspace.git.run_git import Git, GitFailed
from bullpen.workspace.trees.choose_tree import branch_commit
from bullpen.workspace.trees.set_aside import records
from bullpen.workspace.trees.setup import no_room


@dataclass(frozen=True, slots=True)
class Tree:
    """A Bullpen worktree. `made` says that its folder has just been created."""

    path: Path
    git_dir: Path
    mark: TreeMark
    made: bool = False


def lock_of(common: Path) -> Path:
    """Return the lock that is held while worktrees and branches of a repository are changed."""
    return common / "bullpen.lock"


def obtain(workspace: Workspace, common: Path, who: Who) -> Tree:
    """Return the linked worktree of an agent: the existing one, else a new one without files.

    Raises:
        Refused: something else is in its place (tree_taken, path_taken, branch_taken, tree_locked,
            branch_in_the_way).
        Unavailable: it cannot be created.
    """
    path = Path(workspace.path)
    with locked(lock_of(common), f"the repository at {workspace.repository}") as held:
        record = _record(common, path)
        if record is not None:
            mark = mark_in(record)
            if mark is not None:
                refuse_others(mark.who, who, f"The worktree at {path}")
                return _found(path, record, mark, workspace)
            if not _is_half_made(common, path, who):
                raise path_taken(path, "it is a worktree that somebody else created")
            _clear(path, record)
        elif os.path.lexists(path) and _names(path):
            raise path_taken(path, "it is not a worktree of this agent")
        return _made(workspace, common, who, held)


def undo(tree: Tree, workspace: Workspace, common: Path) -> None:
    """Remove a worktree that could not be filled, if nobody can have worked in it."""
    with locked(lock_of(common), f"the repository at {workspace.repository}"):
        who = tree.mark.who
        claim = claim_of(common, who.team, who.agent)
        if claim is not None and claim.who == who and not claim.worked:
            shutil.rmtree(tree.path, ignore_errors=True)
            shutil.rmtree(tree.git_dir, ignore_errors=True)
            _unclaim(workspace, common, claim)
        elif tree.made:
            # Everything in it came from git just now, and the record of the worktree still has it.
            shutil.rmtree(tree.path, ignore_errors=True)


def set_worked(common: Path, who: Who) -> None:
    """Record that from now on somebody may work in the worktree of a claim."""
    claim = claim_of(common, who.team, who.agent)
    if claim is not None and claim.who == who and not claim.worked:
        put_claim(common, claim.evolve(worked=True))


def path_taken(path: Path, why: str) -> Refused:
    """Return the error when something else is where a worktree should be."""
    return Refused(
        f"{path} is taken: {why}.",
        reason="path_taken",
        remedy="Move it away, or choose another root.",
    )


def link(path: Path, git_directory: Path) -> None:
    """Make a folder the worktree of a git dir that already knows it. Raises Unavailable."""
    with write_errors(path):
        path.mkdir(parents=True, exist_ok=True)
        (path / ".git").write_text(f"gitdir: {git_directory}\n", "utf-8")


def _record(common: Path, path: Path) -> Path | None:
    """Return a repository's record of the worktree at a path; None if there is none."""
    return next((own for own, at in records(common) if at == path), None)


def _found(path: Path, record: Path, mark: TreeMark, workspace: Workspace) -> Tree:
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise path_taken(path, "it is not a folder")
    if not path.exists():
        return _again(path, record, mark, workspace)
    file = path / ".git"
    if not os.path.lexists(file):
        # Without it, git would take the next repository above for this one.
        link(path, record)
    elif not _leads_to(file, record):
        raise path_taken(path, f"{file} leads to another repository")
    return Tree(path, record, mark)


def _again(path: Path, record: Path, mark: TreeMark, workspace: Workspace) -> Tree:
    """Recreate a worktree whose folder was deleted: branch, head and index still exist."""
    if os.path.lexists(record / "locked"):
        reason = (record / "locked").read_text("utf-8", "replace").strip() or "no reason is given"
        raise Refused(
            f"The worktree at {path} is missing, and it is locked: {reason}.",
            reason="tree_locked",
            remedy=f"Reconnect its disk, or run: git worktree unlock '{path}'",
        )
    todo = ["restore" if (record / "index").exists() else "files", "modules", "setup"]
    mark = put_mark(record, mark.evolve(todo=todo))
    link(path, record)
    return Tree(path, record, mark, made=True)


def _leads_to(file: Path, record: Path) -> bool:
    try:
        said = file.read_text("utf-8", "surrogateescape").removesuffix("\n")
    except OSError:
        return False
    target = said.removeprefix("gitdir: ")
    return os.path.realpath(file.parent / target) == os.path.realpath(record)


def _is_half_made(common: Path, path: Path, who: Who) -> bool:
    """Return whether a Bullpen process was killed before anything was in the worktree."""
    claim = claim_of(common, who.team, who.agent)
    if claim is None or claim.who != who or claim.path != str(path):
        return False
    return not os.path.lexists(path) or set(_names(path)) <= {".git"}


def _clear(path: Path, record: Path) -> None:
    with suppress(FileNotFoundError):
        (path / ".git").unlink()
    with suppress(FileNotFoundError):
        path.rmdir()
    shutil.rmtree(record)


def _names(path: Path) -> list[str]:
    return os.listdir(path) if path.is_dir() and not path.is_symlink() else [str(path)]


def _made(workspace: Workspace, common: Path, who: Who, held: int) -> Tree:
    path, branch = Path(workspace.path), workspace.branch
    assert branch is not None
    claim, there = _claimed(workspace, common, who, held)
    what = [str(path), branch] if there else ["-b", branch, str(path), claim.start or ""]
    git = Git(Path(workspace.repository), keep=(held,))
    # The hook is for a new worktree, not for one that an agent has worked in.
    todo = ["files", "modules", *([] if claim.worked else ["hook"]), "setup"]
    mark = TreeMark.new(owner=who.owner, team=who.team, agent=who.agent, kind="worktree", todo=todo)
    try:
        with write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            git("worktree", "add", "--quiet", "--no-checkout", *what)
            record = _record(common, path)
            if record is None:
                raise Unavailable(f"Git created no worktree at {path}.", remedy="Try again.")
            return Tree(path, record, put_mark(record, mark), made=True)
    except Unavailable as error:
        _not_made(workspace, common, claim)
        raise no_room(error, path) from None


def _claimed(workspace: Workspace, common: Path, who: Who, held: int) -> tuple[BranchClaim, bool]:
    """Return the claim on an agent's branch, created if possible, and whether the branch exists."""
    branch = workspace.branch
    assert branch is not None and workspace.base is not None
    users = Path(workspace.repository)
    elsewhere = checkout_of(users, branch)
    if elsewhere is not None:
        raise _branch_taken(branch, f"it is checked out in {elsewhere}")
    there = branch_commit(users, branch)
    before = claim_of(common, who.team, who.agent)
    if before is not None and before.who == who and before.branch == branch and there:
        claim = before.evolve(path=workspace.path)
        put_claim(common, claim)
        return claim, True
    base = commit_of(users, workspace.base)
    if base is None:
        raise Refused(
            f"{users} no longer has the branch or commit {workspace.base!r}.",
            reason="base_missing",
            remedy="Choose another base.",
        )
    if there is not None:
        _take_over(Git(users, keep=(held,)), branch, there, base, before)
    claim = BranchClaim.new(
        owner=who.owner,
        team=who.team,
        agent=who.agent,
        path=workspace.path,
        branch=branch,
        start=None if there else base,
    )
    put_claim(common, claim)
    return claim, there is not None


def _take_over(git: Git, branch: str, there: str, base: str, claim: BranchClaim | None) -> None:
    """Move an unclaimed branch up to the base, if it has nothing that the base lacks."""
    if claim is not None:
        raise _branch_taken(branch, f"it belongs to agent {claim.agent} of {claim.owner}")
    if not git.run("merge-base", "--is-ancestor", there, base).ok:
        raise _branch_taken(branch, "it has commits that are not this agent's")
    git("update-ref", "-m", "bullpen: begin", f"refs/heads/{branch}", base, there)


def _not_made(workspace: Workspace, common: Path, claim: BranchClaim) -> None:
    path = Path(workspace.path)
    record = _record(common, path)
    if record is not None and mark_in(record) is None and _is_half_made(common, path, claim.who):
        _clear(path, record)
    if not claim.worked:
        _unclaim(workspace, common, claim)


def _unclaim(workspace: Workspace, common: Path, claim: BranchClaim) -> None:
    """Remove a claim, and its branch if it has not moved."""
    if claim.start is not None:
        with suppress(GitFailed):
            git = Git(Path(workspace.repository))
            git("update-ref", "-d", f"refs/heads/{claim.branch}", claim.start)
    drop_claim(common, claim.team, claim.agent)


def _branch_taken(branch: str, why: str) -> Refused:
    return Refused(
        f"The branch {branch!r} is taken: {why}.",
        reason="branch_taken",
        remedy="Rename that branch, or choose another name for the team or agent.",
    )
