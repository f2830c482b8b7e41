"""Describes one worktree for people. Changes nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from bullpen.errors import BullpenError
from bullpen.protocol.agent import Workspace
from bullpen.workspace.git.repository import is_changed
from bullpen.workspace.git.run_git import Git
from bullpen.workspace.snapshots.save import Saved, saved
from bullpen.workspace.trees.occupants import User, in_use
from bullpen.workspace.trees.set_aside import aside_of, done_with

# What a rebase keeps of a commit, after the side that it is on.
_FORM = "%m%an <%ae> %at %s"


@dataclass(frozen=True, slots=True)
class TreeReport:
    """A worktree: its commit, its content and who uses it. None means unknown."""

    team: str
    agent: str
    workspace: Workspace
    is_there: bool
    snapshots: list[Saved]
    # What is unknown, and why; or that its removal was interrupted.
    trouble: str | None = None
    # The branch that is checked out, which may differ from the one it was created with.
    branch: str | None = None
    head: str | None = None
    # How many commits it is ahead of and behind its base. Merged work was rebased: the same commit
    # has another id on the base, and is not counted as ahead.
    ahead: int | None = None
    behind: int | None = None
    changed: list[str] | None = None
    users: list[User] | None = None


def report(workspace: Workspace, *, team: str, agent: str) -> TreeReport:
    """Describe a worktree. Unreadable parts are not an error here."""
    path = Path(workspace.path)
    trouble = None
    if os.path.lexists(aside_of(path)) or os.path.lexists(done_with(path)):
        trouble = "its removal was interrupted"
    found = TreeReport(team, agent, workspace, path.is_dir(), [], trouble)
    try:
        for place in _repositories(workspace):
            found.snapshots.extend(saved(place, team, agent))
        if not found.is_there:
            return found
        git = Git(path)
        head = git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        branch = git.run("symbolic-ref", "--quiet", "--short", "HEAD")
        ahead, behind = _apart(git, workspace.base)
        changed = is_changed(path)
        users = in_use(path)
    except BullpenError as error:
        return replace(found, trouble=error.message)
    return replace(
        found,
        branch=branch.out.strip() or None,
        head=head.out.strip() or None,
        ahead=ahead,
        behind=behind,
        changed=changed,
        users=users,
    )


def _repositories(workspace: Workspace) -> list[Path]:
    """Return where snapshots of a worktree may be: a clone has its own."""
    known = [workspace.repository]
    if workspace.kind == "clone":
        known.append(workspace.path)
    return [Path(each) for each in known if os.path.isabs(each) and os.path.isdir(each)]


def _apart(git: Git, base: str | None) -> tuple[int | None, int | None]:
    if base is None:
        return None, None
    for name in (f"refs/heads/{base}", f"refs/remotes/origin/{base}", base):
        words = ("--no-commit-header", f"--format={_FORM}", "--left-right")
        ran = git.run("rev-list", *words, f"HEAD...{name}", "--")
        if ran.ok:
            rows = ran.out.split("\n")
            there = {row[1:] for row in rows if row.startswith(">")}
            own = [row for row in rows if row.startswith("<") and row[1:] not in there]
            return len(own), sum(row.startswith(">") for row in rows)
    return None, None
