"""`bullpen workspace`: the trees that agents work in, and the snapshots of them."""

from __future__ import annotations

from typing import Annotated

import typer

from bullpen.cli import complete
from bullpen.cli.command import Noun, command
from bullpen.cli.session import Session

noun = Noun(
    "Look at the trees that agents work in, keep them and bring them back.",
    examples=("bullpen workspace list", "bullpen workspace restore alpha/alice/1"),
)

_Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The agent.", autocompletion=complete.member_names)
]
_Repository = Annotated[
    str | None,
    typer.Option(
        "--repository",
        metavar="DIR",
        help="Any team's trees in this repository, deleted teams' too.",
        show_default=False,
    ),
]


@command(
    noun.commands,
    "list",
    examples=(
        "bullpen workspace list",
        "bullpen workspace list -t alpha --json",
        "bullpen workspace list --repository ~/src/shop",
    ),
)
def list_trees(session: Session, *, repository: _Repository = None) -> None:
    """List the trees of agents: branch, changes, who is in them."""
    session.workspaces(repository).show_all()


@command(noun.commands, "show", examples=("bullpen workspace show alice",))
def show(session: Session, name: _Name, *, repository: _Repository = None) -> None:
    """Show one tree with its changed files and its snapshots."""
    session.workspaces(repository).show(name)


@command(
    noun.commands,
    "save",
    examples=(
        "bullpen workspace save alice",
        "bullpen workspace save alice --why 'before I try something'",
    ),
)
def save(
    session: Session,
    name: _Name,
    *,
    why: Annotated[str, typer.Option("--why", help="What to note.")] = "asked for",
    repository: _Repository = None,
) -> None:
    """Keep all that is in a tree and nowhere else, as a commit under refs/bullpen.

    Staged, changed, new and ignored files, commits that are on no branch, stashes of repositories
    inside. The tree stays as it is.
    """
    session.workspaces(repository).save(name, why)


@command(
    noun.commands,
    "saved",
    examples=("bullpen workspace saved", "bullpen workspace saved --repository ."),
)
def list_saved(session: Session, *, repository: _Repository = None) -> None:
    """List the snapshots of trees."""
    session.workspaces(repository).show_saved()


@command(
    noun.commands,
    "restore",
    examples=(
        "bullpen workspace restore alpha/alice/1",
        "bullpen workspace restore alpha/alice/1 ../back --repository ~/src/shop",
    ),
)
def restore(
    session: Session,
    ref: Annotated[str, typer.Argument(metavar="REF", help="TEAM/AGENT/NUMBER, or a commit.")],
    into: Annotated[
        str | None,
        typer.Argument(metavar="INTO", help="A new directory. [default: beside the trees]"),
    ] = None,
    *,
    repository: _Repository = None,
) -> None:
    """Bring a snapshot back, byte for byte, as a tree of its own.

    Nothing is written over. The new tree is on no branch and belongs to no agent; remove it with
    git worktree remove when you are done.
    """
    session.refuse_agents("bring back a tree")
    session.workspaces(repository).restore(ref, into)


@command(
    noun.commands,
    "remove",
    examples=("bullpen workspace remove alice", "bullpen workspace remove --all -t alpha"),
)
def remove(
    session: Session,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="The agent.", autocompletion=complete.member_names),
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Those of all agents.")] = False,
    repository: _Repository = None,
) -> None:
    """Remove the tree of an agent that has ended. What is in it is kept first.

    A tree that is locked, or that a process is in, stays. With --all those that can be removed
    are, and the others are named.
    """
    if (name is None) != everything:
        raise typer.BadParameter("name an agent, or say --all.")
    session.refuse_agents("remove a tree")
    session.workspaces(repository).remove(name)
