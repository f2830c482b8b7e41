"""Names of Bullpen's branches, refs and folders. Bullpen uses no others. Pure."""

from __future__ import annotations

import hashlib
import re

REFS = "refs/bullpen"
"""Everything that Bullpen saves in a repository is below this."""

_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")


def component(name: str) -> str:
    """Return a name as one part of a ref or path: itself if git accepts it, else with a digest."""
    plain = _PLAIN.fullmatch(name) and ".." not in name and not name.endswith((".lock", "."))
    if plain and len(name) <= 60:
        return name
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{re.sub(r'[^A-Za-z0-9_-]', '-', name)[:40]}-{mark}"


def branch_of(team: str, agent: str) -> str:
    """Return the branch that an agent works on."""
    return f"bullpen/{component(team)}/{component(agent)}"


def saved_refs(team: str, agent: str) -> str:
    """Return the prefix of the numbered refs with the snapshots of an agent's worktree."""
    return f"{REFS}/{component(team)}/{component(agent)}"


def task_ref(team: str, task_id: str, attempt: int) -> str:
    """Return the ref of a task's handed-in work. `+` is in no member's name."""
    return f"{REFS}/{component(team)}/+tasks/{component(task_id)}/{attempt}"


def folder_of(repository_name: str, team: str) -> str:
    """Return the folder beside a repository that holds the worktrees of a team."""
    return f"{repository_name}.bullpen/{component(team)}"


def at_ref(team: str, agent: str) -> str:
    """Return the ref that records an agent's current task and where it began."""
    return f"{REFS}/{component(team)}/+at/{component(agent)}"


def shared_refs(team: str) -> str:
    """Return the prefix of the numbered refs with edits saved from a shared checkout."""
    return f"{REFS}/{component(team)}/+shared"
