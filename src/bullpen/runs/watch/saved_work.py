"""Lists what a team leaves in its repositories: changes, snapshots of worktrees, worktrees."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from anyio import to_thread

from bullpen.agents.work.tree_cleanup import trees_of
from bullpen.errors import BullpenError
from bullpen.protocol.names import LEAD
from bullpen.team.team import Team
from bullpen.view.summary import WorktreeLine
from bullpen.workspace.git.changed_since import changed_since
from bullpen.workspace.git.repository import repository_at
from bullpen.workspace.snapshots.save import saved


async def left_worktrees(team: Team) -> list[WorktreeLine]:
    """Return the worktrees on this machine of agents that have ended."""
    config = await team.agents.config()
    living = {member.name for member, _ in await team.agents.living()}
    ended = [
        WorktreeLine(name, tree.path, tree.branch)
        for name, tree in sorted(trees_of(config).items())
        if name not in living
    ]
    return await to_thread.run_sync(_existing, ended)


def _existing(lines: Sequence[WorktreeLine]) -> list[WorktreeLine]:
    return [line for line in lines if os.path.lexists(line.path)]


async def changed(team: Team) -> str | None:
    """Return what changed in the repository of a team since it began; None outside of one."""
    config = await team.agents.config()
    merge, lead = config.facts.merge, config.member(LEAD)
    folder = merge.repository if merge is not None else None if lead is None else lead.cwd
    worked = any(member.agent is not None for member in config.roster)
    if not folder or config.created_at is None or not worked:
        return None
    if not await to_thread.run_sync(os.path.isdir, folder):
        # It is on another machine.
        return None
    branch = None if merge is None else merge.target
    look = partial(changed_since, Path(folder), int(config.created_at), branch)
    try:
        await to_thread.run_sync(repository_at, Path(folder))
    except BullpenError:
        # It is in no repository.
        return None
    try:
        found = await to_thread.run_sync(look)
    except BullpenError as error:
        return f"not known: {error.message}"
    return None if found is None else found.words or None


async def saved_work(team: Team) -> list[str]:
    """Return what a person should know about the snapshots of a team's worktrees.

    Those that hold nothing but ignored files, such as caches of tests, are nobody's work.
    """
    settings = await team.merges.settings()
    config = await team.agents.config()
    trees = [member.agent.spec.workspace for member in config.roster if member.agent is not None]
    places = {tree.repository for tree in trees if tree is not None and tree.kind == "worktree"}
    if settings is not None:
        places.add(settings.repository)
    found = []
    for place in sorted(places):
        try:
            kept = await to_thread.run_sync(
                partial(saved, Path(place), team=team.name, ignored=False)
            )
        except BullpenError as error:
            found.append(f"snapshots of unmerged work cannot be listed: {error.message}")
        else:
            if kept:
                times = "once" if len(kept) == 1 else f"{len(kept)} times"
                found.append(f"work was saved {times}: bullpen workspace saved -t {team.name}")
    return found
