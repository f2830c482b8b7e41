"""Which task an agent's worktree is at. Stored as a ref, so it survives kills and removal."""

from __future__ import annotations

import json

from bullpen.protocol.record import Wire
from bullpen.workspace.git.ref_names import at_ref
from bullpen.workspace.git.run_git import Git, GitFailed

_BY = "bullpen <bullpen@localhost> 0 +0000"


class At(Wire):
    """The task and attempt, the commit where it began, and the target ref there."""

    task: str
    attempt: int
    base: str
    target: str
    # The files in which Bullpen left conflict markers.
    marks: list[str] = []  # noqa: RUF012 - a field, not a default that is shared


def at_of(git: Git, team: str, agent: str) -> At | None:
    """Return where the worktree is; None if it was never at a task. Raises GitFailed."""
    ref = at_ref(team, agent)
    text = git("for-each-ref", "--format=%(contents)", ref).strip()
    if not text:
        return None
    try:
        return At.parse(json.loads(text))
    except ValueError as error:
        raise GitFailed(["show", ref], 1, f"it does not say where the worktree is: {error}",
                        str(git.where)) from None  # fmt: skip


def put_at(git: Git, team: str, agent: str, at: At) -> None:
    """Record where the worktree is. This also keeps the commit where it began."""
    tree = git("rev-parse", f"{at.base}^{{tree}}")
    head = f"tree {tree}\nparent {at.base}\nauthor {_BY}\ncommitter {_BY}\n"
    text = f"{head}\n{json.dumps(at.raw)}\n"
    commit = git("hash-object", "-t", "commit", "-w", "--stdin", given=text)
    git("update-ref", at_ref(team, agent), commit)
