"""What there is to say about one tree, for people. Only looks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from bullpen.errors import BullpenError
from bullpen.protocol.workspace import Workspace
from bullpen.workspace.aside import aside_of, done_with
from bullpen.workspace.git import Git
from bullpen.workspace.living import User, in_use
from bullpen.workspace.repository import is_changed
from bullpen.workspace.snapshots import Saved, saved


@dataclass(frozen=True, slots=True)
class TreeReport:
    """A tree: what it is at, what is in it, who is in it. What cannot be told is None."""

    team: str
    agent: str
    workspace: Workspace
    is_there: bool
    # The branch that is checked out, which need not be the one it was made with.
    branch: str | None
    head: str | None
    # How many commits it has that its base has not, and the other way round.
    ahead: int | None
    behind: int | None
    changed: list[str] | None
    users: list[User] | None
    snapshots: list[Saved]
    # What could not be told, and why; or that its removal was cut short.
    trouble: str | None = None


def report(workspace: Workspace, *, team: str, agent: str) -> TreeReport:
    """Look at a tree; what cannot be looked at is not an error here."""
    path = Path(workspace.path)
    trouble = None
    if os.path.lexists(aside_of(path)) or os.path.lexists(done_with(path)):
        trouble = "its removal was cut short"
    snapshots: list[Saved] = []
    try:
        for place in _repositories(workspace):
            snapshots += saved(place, team, agent)
        if not path.is_dir():
            return _nowhere(workspace, team, agent, snapshots, trouble)
        git = Git(path)
        head = git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        branch = git.run("symbolic-ref", "--quiet", "--short", "HEAD")
        ahead, behind = _apart(git, workspace.base)
        changed = is_changed(path)
        users = in_use(path)
    except BullpenError as error:
        return _nowhere(workspace, team, agent, snapshots, error.message)
    return TreeReport(
        team=team,
        agent=agent,
        workspace=workspace,
        is_there=True,
        branch=branch.out.strip() or None,
        head=head.out.strip() or None,
        ahead=ahead,
        behind=behind,
        changed=changed,
        users=users,
        snapshots=snapshots,
        trouble=trouble,
    )


def _repositories(workspace: Workspace) -> list[Path]:
    """Where snapshots of a tree may lie: a clone has some of its own."""
    known = [workspace.repository]
    if workspace.kind == "clone":
        known.append(workspace.path)
    return [Path(each) for each in known if os.path.isabs(each) and os.path.isdir(each)]


def _nowhere(
    workspace: Workspace, team: str, agent: str, snapshots: list[Saved], trouble: str | None
) -> TreeReport:
    return TreeReport(
        team=team,
        agent=agent,
        workspace=workspace,
        is_there=Path(workspace.path).is_dir(),
        branch=None,
        head=None,
        ahead=None,
        behind=None,
        changed=None,
        users=None,
        snapshots=snapshots,
        trouble=trouble,
    )


def _apart(git: Git, base: str | None) -> tuple[int | None, int | None]:
    if base is None:
        return None, None
    for name in (f"refs/heads/{base}", f"refs/remotes/origin/{base}", base):
        ran = git.run("rev-list", "--left-right", "--count", f"HEAD...{name}", "--")
        if ran.ok:
            ahead, behind = ran.out.split()
            return int(ahead), int(behind)
    return None, None
