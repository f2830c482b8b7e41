"""What our branches, refs and folders are called. Nothing of ours lies anywhere else. Pure."""

from __future__ import annotations

import hashlib
import re

REFS = "refs/bullpen"
"""Everything that we keep safe in a repository is below this."""

_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")


def component(name: str) -> str:
    """A name as one part of a ref or path: itself if git takes it, else with a mark of its own."""
    plain = _PLAIN.fullmatch(name) and ".." not in name and not name.endswith((".lock", "."))
    if plain and len(name) <= 60:
        return name
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{re.sub(r'[^A-Za-z0-9_-]', '-', name)[:40]}-{mark}"


def branch_of(team: str, agent: str) -> str:
    """The branch that an agent works on."""
    return f"bullpen/{component(team)}/{component(agent)}"


def saved_refs(team: str, agent: str) -> str:
    """Where the snapshots of an agent's tree lie: numbered refs below this."""
    return f"{REFS}/{component(team)}/{component(agent)}"


def task_ref(team: str, task_id: str, attempt: int) -> str:
    """What keeps the work that was handed in with a task. `+` is in no name of a member."""
    return f"{REFS}/{component(team)}/+tasks/{component(task_id)}/{attempt}"


def folder_of(repository_name: str, team: str) -> str:
    """The folder beside a repository that holds the trees of a team."""
    return f"{repository_name}.bullpen/{component(team)}"


def at_ref(team: str, agent: str) -> str:
    """What says which task the tree of an agent is at, and where that began."""
    return f"{REFS}/{component(team)}/+at/{component(agent)}"


def shared_refs(team: str) -> str:
    """Where edits lie that were kept safe in a tree that several share: numbered refs below."""
    return f"{REFS}/{component(team)}/+shared"
