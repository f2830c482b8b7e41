"""Agents in trees of their own: how tests spawn them, and what they find there."""

from __future__ import annotations

import json
import os
from typing import Any

from bullpen.agents.supervisor.start import Spawned
from bullpen.agents.work.merge_checks import open_queue
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import MergeSettings
from bullpen.team.team import Team
from support.agents.tree_rights import tree_of, wish
from support.git.repositories import git
from support.offices import Place

__all__ = ["tree_of", "wish"]


async def plant(place: Place, name: str, text: str = "", **fields: Any) -> Spawned:
    """Spawn an agent in a worktree of its own."""
    return await place.spawn(name, text, **{"workspace": wish(name), **fields})


async def merging(place: Place, **words: Any) -> MergeSettings:
    """Let the team merge into `main`."""
    settings = MergeSettings.new(repository=str(place.project), target="main", **words)
    return await place.team.merges.configure(settings, by=LEAD, voice="human")


def branches(place: Place) -> list[str]:
    out = git(place.project, "for-each-ref", "--format=%(refname:short)", "refs/heads")
    return out.splitlines()


async def names(place: Place) -> list[str]:
    return await names_of(place.team)


async def names_of(team: Team) -> list[str]:
    return [member.name for member in await team.roster.list()]


async def merged(place: Place, settings: MergeSettings) -> list[str]:
    """Be the merge queue until nothing waits; the tasks that it merged, in order."""
    queue = await open_queue(
        place.team, settings, home=place.home, environ={"PATH": os.environ["PATH"]}
    )
    done: list[str] = []
    while (step := await queue.step()) is not None:
        assert step.held is None, step.held
        done += step.merged
    return done


def transcript(place: Place, agent: str) -> list[dict[str, Any]]:
    """What an agent was told and did."""
    (found,) = place.home.glob(f"agents/*/{agent}/transcript.jsonl")
    return [json.loads(row) for row in found.read_text().splitlines()]


def told(place: Place, agent: str) -> str:
    """All that the turns of an agent began with."""
    return "\n".join(row["text"] for row in transcript(place, agent) if row["kind"] == "turn")


def results(place: Place, agent: str) -> str:
    """All that tools answered to an agent."""
    return "\n".join(row["text"] for row in transcript(place, agent) if row["kind"] == "result")
