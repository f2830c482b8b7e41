"""Which task the tree of an agent is at. It is a ref, so it outlives the tree and a kill."""

from __future__ import annotations

import json

from bullpen.protocol.wire import Wire
from bullpen.workspace.git import Git, GitFailed
from bullpen.workspace.names import at_ref

_BY = "bullpen <bullpen@localhost> 0 +0000"


class At(Wire):
    """The task and attempt, the commit that this began at, and the ref of the target there."""

    task: str
    attempt: int
    base: str
    target: str
    # The files in which code left marks of what contradicts each other.
    marks: list[str] = []  # noqa: RUF012 - a field, not a default that is shared


def at_of(git: Git, team: str, agent: str) -> At | None:
    """Where the tree is; None if it was at no task yet.

    Raises:
        GitFailed: git cannot tell.
    """
    ref = at_ref(team, agent)
    text = git("for-each-ref", "--format=%(contents)", ref).strip()
    if not text:
        return None
    try:
        return At.parse(json.loads(text))
    except ValueError as error:
        raise GitFailed(["show", ref], 1, f"it does not say where the tree is: {error}",
                        str(git.where)) from None  # fmt: skip


def put_at(git: Git, team: str, agent: str, at: At) -> None:
    """Say where the tree is. The commit that it began at is kept as long as this holds."""
    tree = git("rev-parse", f"{at.base}^{{tree}}")
    head = f"tree {tree}\nparent {at.base}\nauthor {_BY}\ncommitter {_BY}\n"
    text = f"{head}\n{json.dumps(at.raw)}\n"
    commit = git("hash-object", "-t", "commit", "-w", "--stdin", given=text)
    git("update-ref", at_ref(team, agent), commit)
