"""Work of a team that was saved because it was on no branch: what a person may want back."""

from __future__ import annotations

from pathlib import Path

from anyio import to_thread

from bullpen.errors import BullpenError
from bullpen.team.team import Team
from bullpen.workspace.snapshots import saved


async def saved_work(team: Team) -> list[str]:
    """What a person should know of snapshots of a team's trees, in words."""
    settings = await team.merges.settings()
    config = await team.agents.config()
    trees = [member.agent.asked.tree for member in config.roster if member.agent is not None]
    places = {tree.repository for tree in trees if tree is not None and tree.kind == "worktree"}
    if settings is not None:
        places.add(settings.repository)
    found = []
    for place in sorted(places):
        try:
            kept = await to_thread.run_sync(lambda at: saved(Path(at), team=team.name), place)
        except BullpenError as error:
            found.append(f"what was saved of unmerged work cannot be listed: {error.message}")
        else:
            if kept:
                times = "once" if len(kept) == 1 else f"{len(kept)} times"
                found.append(f"work was saved {times}: bullpen workspace saved -t {team.name}")
    return found
