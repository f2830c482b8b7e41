"""Linked trees: made beside the user's, and found again as they are."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bullpen.errors import Refused, Unavailable
from bullpen.protocol.workspace import Workspace
from bullpen.workspace.filling import no_room
from bullpen.workspace.git import Git, GitFailed
from bullpen.workspace.marks import (
    Claim,
    Mark,
    Who,
    cannot_write,
    claim_of,
    drop_claim,
    locked,
    mark_in,
    put_claim,
    put_mark,
    refuse_others,
)
from bullpen.workspace.plans import branch_commit
from bullpen.workspace.repository import commit_of, trees_seen_from


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of ours. `made` says that its folder was not there a moment ago."""

    path: Path
    git_dir: Path
    mark: Mark
    made: bool = False


def lock_of(common: Path) -> Path:
    """The lock that is held while trees and branches of a repository come and go."""
    return common / "bullpen.lock"


def obtain(workspace: Workspace, common: Path, who: Who) -> Tree:
    """The linked tree of an agent: found as it is, else made, as yet without files.

    Raises:
        Refused: something else is in its place (tree_taken, path_taken, branch_taken, tree_locked,
            branch_in_the_way).
        Unavailable: it cannot be made.
    """
    path = Path(workspace.path)
    with locked(lock_of(common), f"the repository at {workspace.repository}") as held:
        record = _record(common, path)
        if record is not None:
            mark = mark_in(record)
            if mark is not None:
                refuse_others(mark.who, who, f"The tree at {path}")
                return _found(path, record, mark, workspace)
            if not _is_half_made(common, path, who):
                raise path_taken(path, "it is a tree that somebody else made")
            _clear(path, record)
        elif os.path.lexists(path) and not _is_empty(path):
            raise path_taken(path, "it is not a tree of this agent")
        return _made(workspace, common, who, held)


def undo(tree: Tree, workspace: Workspace, common: Path) -> None:
    """Remove a tree that could not be filled, if nobody can have worked in it."""
    with locked(lock_of(common), f"the repository at {workspace.repository}"):
        who = tree.mark.who
        claim = claim_of(common, who.team, who.agent)
        if claim is not None and claim.who == who and not claim.worked:
            shutil.rmtree(tree.path, ignore_errors=True)
            shutil.rmtree(tree.git_dir, ignore_errors=True)
            _unclaim(workspace, common, claim)
        elif tree.made:
            # All that is in it came from git just now, and the record of the tree still has it.
            shutil.rmtree(tree.path, ignore_errors=True)


def set_worked(common: Path, who: Who) -> None:
    """Note that from now on somebody may work in the tree of a claim."""
    claim = claim_of(common, who.team, who.agent)
    if claim is not None and claim.who == who and not claim.worked:
        put_claim(common, claim.evolve(worked=True))


def path_taken(path: Path, why: str) -> Refused:
    """What to say if something else is where a tree should be."""
    return Refused(
        f"{path} is taken: {why}.",
        reason="path_taken",
        remedy="Move away what is there and keep what you need of it, or choose another root.",
    )


def link(path: Path, git_directory: Path) -> None:
    """Make a folder the tree of a git directory that knows it already.

    Raises:
        Unavailable: it cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        (path / ".git").write_text(f"gitdir: {git_directory}\n", "utf-8")
    except OSError as error:
        raise cannot_write(path, error) from None


def _record(common: Path, path: Path) -> Path | None:
    """What a repository keeps about the tree at a path; None if it knows of none there."""
    try:
        names = sorted(os.listdir(common / "worktrees"))
    except FileNotFoundError:
        return None
    for name in names:
        record = common / "worktrees" / name
        with suppress(FileNotFoundError, NotADirectoryError):
            said = (record / "gitdir").read_text("utf-8", "surrogateescape").removesuffix("\n")
            if os.path.normpath(record / said) == str(path / ".git"):
                return record
    return None


def _found(path: Path, record: Path, mark: Mark, workspace: Workspace) -> Tree:
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise path_taken(path, "it is not a folder")
    if not path.exists():
        return _again(path, record, mark, workspace)
    file = path / ".git"
    if not os.path.lexists(file):
        # Without it git would take the next repository above for this one.
        link(path, record)
    elif not _leads_to(file, record):
        raise path_taken(path, f"what is at {file} leads to another repository")
    return Tree(path, record, mark)


def _again(path: Path, record: Path, mark: Mark, workspace: Workspace) -> Tree:
    """A tree whose folder was deleted: branch, head and index are still there."""
    if os.path.lexists(record / "locked"):
        reason = (record / "locked").read_text("utf-8", "replace").strip() or "no reason is given"
        raise Refused(
            f"The tree at {path} is not there, and it is locked: {reason}.",
            reason="tree_locked",
            remedy=f"Bring its disk back, or run: git worktree unlock '{path}'",
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
    """Whether somebody of ours was killed before anything was in the tree."""
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


def _is_empty(path: Path) -> bool:
    return not _names(path)


def _made(workspace: Workspace, common: Path, who: Who, held: int) -> Tree:
    path, branch = Path(workspace.path), workspace.branch
    assert branch is not None
    claim, there = _claimed(workspace, common, who, held)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        what = [str(path), branch] if there else ["-b", branch, str(path), claim.start or ""]
        git = Git(Path(workspace.repository), keep=(held,))
        git("worktree", "add", "--quiet", "--no-checkout", *what)
        record = _record(common, path)
        if record is None:
            raise Unavailable(f"git made no tree at {path}.", remedy="Try again.")
        # The hook is for a new tree, not for one that an agent worked in before.
        todo = ["files", "modules", *([] if claim.worked else ["hook"]), "setup"]
        mark = Mark.new(owner=who.owner, team=who.team, agent=who.agent, kind="worktree", todo=todo)
        return Tree(path, record, put_mark(record, mark), made=True)
    except (Unavailable, OSError) as error:
        _not_made(workspace, common, claim)
        if isinstance(error, OSError):
            raise cannot_write(path, error) from None
        raise no_room(error, path) from None


def _claimed(workspace: Workspace, common: Path, who: Who, held: int) -> tuple[Claim, bool]:
    """The claim on an agent's branch, made if it can be, and whether there is the branch."""
    branch = workspace.branch
    assert branch is not None and workspace.base is not None
    users = Path(workspace.repository)
    elsewhere = [tree.path for tree in trees_seen_from(users) if tree.branch == branch]
    if elsewhere:
        raise _branch_taken(branch, f"it is checked out in {elsewhere[0]}")
    there = branch_commit(users, branch)
    before = claim_of(common, who.team, who.agent)
    if before is not None and before.who == who and before.branch == branch and there:
        claim = before.evolve(path=workspace.path)
        put_claim(common, claim)
        return claim, True
    base = commit_of(users, workspace.base)
    if base is None:
        raise Refused(
            f"The branch or commit {workspace.base!r} is not in {users} any more.",
            reason="base_missing",
            remedy="Name another one to begin with.",
        )
    if there is not None:
        _take_over(Git(users, keep=(held,)), branch, there, base, before)
    claim = Claim.new(
        owner=who.owner,
        team=who.team,
        agent=who.agent,
        path=workspace.path,
        branch=branch,
        start=None if there else base,
    )
    put_claim(common, claim)
    return claim, there is not None


def _take_over(git: Git, branch: str, there: str, base: str, claim: Claim | None) -> None:
    """Move a branch that nobody claims up to the base, if it holds nothing but what that has."""
    if claim is not None:
        raise _branch_taken(branch, f"it belongs to agent {claim.agent} of {claim.owner}")
    if not git.run("merge-base", "--is-ancestor", there, base).ok:
        raise _branch_taken(branch, "it holds commits that are not this agent's")
    git("update-ref", "-m", "bullpen: begin", f"refs/heads/{branch}", base, there)


def _not_made(workspace: Workspace, common: Path, claim: Claim) -> None:
    path = Path(workspace.path)
    record = _record(common, path)
    if record is not None and mark_in(record) is None and _is_half_made(common, path, claim.who):
        _clear(path, record)
    if not claim.worked:
        _unclaim(workspace, common, claim)


def _unclaim(workspace: Workspace, common: Path, claim: Claim) -> None:
    """Take back a claim, and its branch if that is still where we made it."""
    if claim.start is not None:
        with suppress(GitFailed):
            git = Git(Path(workspace.repository))
            git("update-ref", "-d", f"refs/heads/{claim.branch}", claim.start)
    drop_claim(common, claim.team, claim.agent)


def _branch_taken(branch: str, why: str) -> Refused:
    return Refused(
        f"The branch {branch!r} is taken: {why}.",
        reason="branch_taken",
        remedy="Give that branch another name, or choose another name for the team or agent.",
    )
