"""Lists the snapshots of a team's worktrees: work on no branch that a person may want back."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from anyio import to_thread

from bullpen.errors import BullpenError
from bullpen.team.team import Team
from bullpen.workspace.snapshots.save import saved


async def saved_work(team: Team) -> list[str]:
    """Return what a person should know about the snapshots of a team's worktrees."""
    settings = await team.merges.settings()
    config = await team.agents.config()
    trees = [member.agent.spec.workspace for member in config.roster if member.agent is not None]
    places = {tree.repository for tree in trees if tree is not None and tree.kind == "worktree"}
    if settings is not None:
        places.add(settings.repository)
    found = []
    for place in sorted(places):
        try:
            kept = await to_thread.run_sync(partial(saved, Path(place), team=team.name))
        except BullpenError as error:
            found.append(f"snapshots of unmerged work cannot be listed: {error.message}")
        else:
            if kept:
                times = "once" if len(kept) == 1 else f"{len(kept)} times"
                found.append(f"work was saved {times}: bullpen workspace saved -t {team.name}")
    return found
