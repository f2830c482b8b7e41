"""Where an agent works: the git tree that it was given, as it is kept in its spec."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from bullpen.protocol.wire import Wire

WorkspaceKind = Literal["shared", "worktree", "clone"]
"""`shared` is the tree of the user, `worktree` a tree and branch of its own in the same repository,
`clone` a repository of its own."""

DirtyStart = Literal["refuse", "leave"]
"""What becomes of changes in the user's tree that are not committed: an agent in a tree of its own
would not see them. It is not started, or it is told to do without them."""

SETUP_S = 600.0
"""How long setting up a tree may take that says nothing about it."""


class Workspace(Wire):
    """The tree of one agent. With `shared` there is nothing to make: `path` is the user's tree."""

    kind: WorkspaceKind
    # The top of the user's tree; of a clone, what it is cloned from: a path or a URL.
    repository: str
    # The top of the agent's tree, and below that where it works.
    path: str
    inside: str = ""
    # Its branch, and the branch or commit that this starts from.
    branch: str | None = None
    base: str | None = None
    dirty: DirtyStart = "refuse"
    # The command that makes a new tree ready for work.
    setup: str | None = None
    setup_s: float = Field(default=SETUP_S, gt=0)
