"""Remove the worktrees of agents that no longer exist, with their team or with the doctor.

Nothing is removed that is not in a snapshot, and no worktree that is in use: see `workspace`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from anyio import to_thread

from bullpen.agents.system.folders import home_mark, tree_owner
from bullpen.errors import BullpenError
from bullpen.protocol.agent import Workspace
from bullpen.protocol.team import TeamConfig
from bullpen.store.contract import Finding
from bullpen.workspace.removal.inventory import Ours, clone_of_ours, finish, trees_of_ours
from bullpen.workspace.removal.remove import Removed, remove
from bullpen.workspace.shared.locked_json import SharedFile
from bullpen.workspace.trees.set_aside import aside_of, done_with
from bullpen.workspace.trees.slots import marks_in_use

_LEFT = "left-trees.json"


@dataclass(frozen=True, slots=True)
class TreeEnd:
    """What happened to a worktree when its team was deleted: removed, or why it was kept."""

    agent: str
    path: str
    removed: Removed | None
    why: str = ""

    def __str__(self) -> str:
        if self.removed is None:
            return f"Kept the worktree of {self.agent} at {self.path}: {self.why}"
        kept = self.removed.saved
        return f"Removed the worktree of {self.agent}" + (
            f", saved as {kept.ref}." if kept else "."
        )

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
    """The worktrees of a team's agents, by agent."""
    return {
        member.name: tree
        for member in config.roster
        if member.agent is not None and (tree := member.agent.spec.own_tree) is not None
    }


async def remember(home: Path, trees: Iterable[Workspace]) -> None:
    """Save the paths of worktrees whose team is about to be deleted, for the doctor."""
    rows = {tree.path: tree.repository for tree in trees}
    if rows:
        await to_thread.run_sync(_note, SharedFile(home / _LEFT), rows)


async def remove_trees(
    home: Path, config: TeamConfig, *, planned: Mapping[str, Workspace]
) -> list[TreeEnd]:
    """Remove the worktrees of a deleted team. Those that cannot be removed stay, with a reason.

    `planned` are those of agents that may have left the roster because they did not start.
    """
    owner = tree_owner(home, config)
    ends = [
        await to_thread.run_sync(_end, config.name, agent, tree, owner)
        for agent, tree in {**planned, **trees_of(config)}.items()
    ]
    gone = [end.path for end in ends if end.removed is not None]
    with suppress(BullpenError):
        # A needless note costs the doctor only one look.
        await to_thread.run_sync(_forget, SharedFile(home / _LEFT), gone)
    return ends


async def examine_trees(
    home: Path, configs: Mapping[str, TeamConfig], *, complete: bool, fix: bool
) -> list[Finding]:
    """Find worktrees whose agent or team no longer exists, and interrupted removals.

    Unless `configs` is `complete`, a team that is missing from it may still exist.
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
    what = f"A worktree ({tree.state}) of agent {who.agent!r}, but {gone} no longer exists"
    found = Finding("left_tree", str(tree.path), what)
    if not fix:
        return found
    if not tree.repository:
        why = "the source of this clone is unknown: save what you need, then delete it"
        return replace(found, action=why)
    end = _end(who.team, who.agent, tree.workspace, who.owner)
    if end.removed is None:
        return replace(found, action=end.why)
    kept = end.removed.saved
    done = f"removed, saved as {kept.ref}" if kept else "removed; it had no unsaved work"
    return replace(found, fixed=True, action=done)


def _finished(tree: Ours, fix: bool) -> Finding:
    what = f"The removal of the worktree of agent {tree.who.agent!r} was interrupted"
    found = Finding("half_removed_tree", str(tree.path), what)
    if not fix:
        return found
    try:
        finish(tree)
    except BullpenError as error:
        return replace(found, action=error.message)
    return replace(found, fixed=True, action="restored")


def _all_trees(home: Path, configs: Iterable[TeamConfig]) -> list[Ours]:
    """All worktrees of agents, in every repository we know of."""
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
        # Worktrees of a deleted repository are gone too; an unreadable one is not touched.
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
