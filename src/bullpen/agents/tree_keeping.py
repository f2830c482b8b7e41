"""The trees of agents that are gone: removed with their team, and found by the doctor later.

Nothing is removed that is not in a snapshot, and no tree that somebody is in: see `workspace`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread

from bullpen.agents.launching import home_mark, tree_owner
from bullpen.errors import BullpenError
from bullpen.protocol.roster import TeamConfig
from bullpen.protocol.workspace import Workspace
from bullpen.store.base import Finding
from bullpen.workspace.aside import aside_of, done_with
from bullpen.workspace.inventory import Ours, clone_of_ours, finish, trees_of_ours
from bullpen.workspace.removing import Removed, remove
from bullpen.workspace.shared_file import SharedFile
from bullpen.workspace.surroundings import marks_in_use

_LEFT = "left-trees.json"


@dataclass(frozen=True, slots=True)
class TreeEnd:
    """What became of the tree of an agent whose team is deleted: removed, or why it stays."""

    agent: str
    path: str
    removed: Removed | None
    why: str = ""

    def __str__(self) -> str:
        if self.removed is None:
            return f"The tree of {self.agent} stays at {self.path}: {self.why}"
        kept = self.removed.saved
        return f"Removed the tree of {self.agent}" + (f", kept as {kept.ref}." if kept else ".")

    @property
    def as_json(self) -> dict[str, str | bool | None]:
        """The same for programs."""
        kept = None if self.removed is None else self.removed.saved
        return {
            "agent": self.agent,
            "path": self.path,
            "removed": self.removed is not None,
            "snapshot": None if kept is None else kept.ref,
            "why": self.why or None,
        }


def trees_of(config: TeamConfig) -> dict[str, Workspace]:
    """The trees that the agents of a team have for themselves, by their names."""
    found = {}
    for member in config.roster:
        tree = None if member.agent is None else member.agent.asked.tree
        if tree is not None and tree.kind != "shared":
            found[member.name] = tree
    return found


async def remember(home: Path, trees: Iterable[Workspace]) -> None:
    """Note where trees are whose team is about to be gone, so that the doctor finds them."""
    rows = {tree.path: tree.repository for tree in trees}
    if rows:
        await to_thread.run_sync(_note, SharedFile(home / _LEFT), rows)


async def remove_trees(home: Path, config: TeamConfig) -> list[TreeEnd]:
    """Remove the trees of a team that is deleted. What cannot be removed stays, with the reason."""
    owner, ends = tree_owner(home, config), []
    for agent, tree in trees_of(config).items():
        end = await to_thread.run_sync(_end, config.name, agent, tree, owner)
        ends.append(end)
    gone = [end.path for end in ends if end.removed is not None]
    with suppress(BullpenError):
        # What is noted in vain costs the doctor a look.
        await to_thread.run_sync(_forget, SharedFile(home / _LEFT), gone)
    return ends


async def examine_trees(
    home: Path, configs: Mapping[str, TeamConfig], *, complete: bool, fix: bool
) -> list[Finding]:
    """Trees of this home whose agent or team is gone, and those whose removal was cut short.

    Unless `configs` is `complete`, a team that it lacks may be one that is at work.
    """
    mark = f"{home_mark(home)}-"
    teams = {tree_owner(home, config): config for config in configs.values()}
    findings = []
    found = await to_thread.run_sync(_all_trees, home, list(configs.values()))
    for tree in sorted(found, key=lambda tree: str(tree.path)):
        team = teams.get(tree.who.owner)
        if not tree.who.owner.startswith(mark) or (team is None and not complete):
            continue
        if team is not None and tree.who.agent in trees_of(team):
            if tree.state == "half removed":
                findings.append(await to_thread.run_sync(_finished, tree, fix))
        else:
            findings.append(await to_thread.run_sync(_left, tree, team is None, fix))
    return findings


def _end(team: str, agent: str, tree: Workspace, owner: str) -> TreeEnd:
    path = Path(tree.path)
    if tree.kind == "clone" and not any(
        os.path.lexists(place) for place in (path, aside_of(path), done_with(path))
    ):
        return TreeEnd(agent, tree.path, None, "It is not on this machine.")
    try:
        why = "its team was deleted"
        return TreeEnd(agent, tree.path, remove(tree, team=team, agent=agent, owner=owner, why=why))
    except BullpenError as error:
        return TreeEnd(agent, tree.path, None, f"{error.message} {error.remedy}".strip())


def _left(tree: Ours, is_team_gone: bool, fix: bool) -> Finding:
    who = tree.who
    gone = f"team {who.team!r}" if is_team_gone else f"{who.agent!r} of team {who.team!r}"
    what = f"A tree ({tree.state}) of agent {who.agent!r}; {gone} is gone"
    found = Finding("left_tree", str(tree.path), what)
    if not fix:
        return found
    if not tree.repository:
        why = "it is not known what it is a clone of: keep what you need, then delete it"
        return Finding("left_tree", found.where, what, action=why)
    end = _end(who.team, who.agent, tree.workspace, who.owner)
    if end.removed is None:
        return Finding("left_tree", found.where, what, action=end.why)
    kept = end.removed.saved
    done = f"removed, kept as {kept.ref}" if kept else "removed; it held nothing new"
    return Finding("left_tree", found.where, what, fixed=True, action=done)


def _finished(tree: Ours, fix: bool) -> Finding:
    what = f"The removal of the tree of agent {tree.who.agent!r} was cut short"
    if not fix:
        return Finding("half_removed_tree", str(tree.path), what)
    try:
        finish(tree)
    except BullpenError as error:
        return Finding("half_removed_tree", str(tree.path), what, action=error.message)
    action = "it is back in its place"
    return Finding("half_removed_tree", str(tree.path), what, fixed=True, action=action)


def _all_trees(home: Path, configs: Iterable[TeamConfig]) -> list[Ours]:
    """All trees that were made for agents, wherever we know of a repository that has some."""
    noted = {path: str(came) for path, came in SharedFile(home / _LEFT).read().items()}
    known = [tree for config in configs for tree in trees_of(config).values()]
    repositories = {tree.repository for tree in known if tree.kind == "worktree"}
    clones = {tree.path: tree.repository for tree in known if tree.kind == "clone"} | noted
    repositories |= {came for came in noted.values() if os.path.isabs(came)}
    with suppress(BullpenError):
        for mark in marks_in_use():
            if mark.parent.parent.name == "worktrees":
                repositories.add(str(mark.parents[2]))
            else:
                clones.setdefault(str(mark.parents[1]), "")
    found: dict[tuple[str, str], Ours] = {}
    for repository in sorted(repositories):
        # A repository that is gone took its trees along; what cannot be read is not touched.
        with suppress(BullpenError):
            found |= {(str(t.path), t.who.owner): t for t in trees_of_ours(Path(repository))}
    for path, came in clones.items():
        with suppress(BullpenError):
            clone = clone_of_ours(Path(path), came)
            if clone is not None:
                found[str(clone.path), clone.who.owner] = clone
    return list(found.values())


def _note(file: SharedFile, rows: Mapping[str, str]) -> None:
    with file.changing() as noted:
        noted.update(rows)


def _forget(file: SharedFile, paths: Iterable[str]) -> None:
    with file.changing() as noted:
        for path in paths:
            noted.pop(path, None)
