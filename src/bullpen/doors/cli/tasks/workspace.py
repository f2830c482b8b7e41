"""`bullpen workspace`: agents' worktrees and their snapshots."""

from __future__ import annotations

from typing import Annotated

import typer

from bullpen.doors.cli.command import examples
from bullpen.doors.cli.options import completion
from bullpen.doors.cli.options.option import argument, flag, option
from bullpen.doors.cli.session import Session
from bullpen.doors.cli.tasks.workspace_view import Workspaces

_Name = Annotated[str, argument("The agent", "NAME", complete=completion.member_names)]
_Repository = Annotated[
    str | None,
    option("All worktrees in this repository, also those of deleted teams", "DIR", "--repository"),
]


@examples(
    "bullpen workspace list",
    "bullpen workspace list -t alpha --json",
    "bullpen workspace list --repository ~/src/shop",
)
def list_trees(session: Session, *, repository: _Repository = None) -> None:
    """List agents' worktrees.

    Shows branch, changes and the processes in each worktree.
    """
    Workspaces(session, repository).show_all()


@examples("bullpen workspace show alice")
def show(session: Session, name: _Name, *, repository: _Repository = None) -> None:
    """Show a worktree with its changes and snapshots."""
    Workspaces(session, repository).show(name)


@examples(
    "bullpen workspace save alice", "bullpen workspace save alice --why 'before I try something'"
)
def save(
    session: Session,
    name: _Name,
    *,
    why: Annotated[str, option("Note to store with it", None, "--why")] = "asked for",
    repository: _Repository = None,
) -> None:
    """Save a snapshot of a worktree.

    Saves what exists only in this worktree as a commit under refs/bullpen: staged, changed, new and
    ignored files, commits on no branch, stashes of nested repositories. The worktree stays as it
    is.
    """
    Workspaces(session, repository).save(name, why)


@examples("bullpen workspace saved", "bullpen workspace saved --repository .")
def list_saved(session: Session, *, repository: _Repository = None) -> None:
    """List snapshots of worktrees."""
    Workspaces(session, repository).show_saved()


@examples(
    "bullpen workspace restore alpha/alice/1",
    "bullpen workspace restore alpha/alice/1 ../back --repository ~/src/shop",
)
def restore(
    session: Session,
    ref: Annotated[str, argument("TEAM/AGENT/NUMBER or a commit", "REF")],
    into: Annotated[
        str | None, argument("A new directory [default: beside the worktrees]", "INTO")
    ] = None,
    *,
    repository: _Repository = None,
) -> None:
    """Restore a snapshot into a new worktree.

    Restores every byte and overwrites nothing. The new worktree is on no branch and belongs to no
    agent; remove it with `git worktree remove` when you are done.
    """
    Workspaces(session, repository).restore(ref, into)


@examples("bullpen workspace remove alice", "bullpen workspace remove --all -t alpha")
def remove(
    session: Session,
    name: Annotated[
        str | None, argument("The agent", "NAME", complete=completion.member_names)
    ] = None,
    *,
    everything: Annotated[bool, flag("Remove the worktrees of all agents", "--all")] = False,
    repository: _Repository = None,
) -> None:
    """Remove the worktree of an agent that has ended.

    Saves a snapshot first. A worktree that is locked or in use stays. With --all, removes what can
    be removed and names the rest.
    """
    if (name is None) != everything:
        raise typer.BadParameter("name an agent, or pass --all.")
    Workspaces(session, repository).remove(name)
