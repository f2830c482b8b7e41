"""A team whose work is merged, and work that is handed in with what its tests said."""

from __future__ import annotations

from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.protocol.task import Step
from bullpen.protocol.team import MergeSettings, TeamFacts
from bullpen.store.memory import MemoryStore
from bullpen.team.tasks.merge_rules import HandIn
from bullpen.team.team import Team, Teams


async def team_that_merges() -> Team:
    teams = Teams(MemoryStore())
    merge = MergeSettings.new(repository="/project", target="main")
    await teams.create("night", facts=TeamFacts.new(merge=merge.raw))
    team = teams.open("night")
    spec = AgentSpec.new(driver="told", backend="in-process", cwd="/")
    await team.agents.register("ann", spec, by=LEAD, nonce="n")
    return team


async def hand_in(team: Team, *, passed: bool | None) -> str:
    task = await team.tasks.add("Do it", by=LEAD)
    await team.tasks.claim(task.id, by="ann")
    await team.tasks.done(task.id, by="ann", work=HandIn(f"c{task.id}", "base", "ref"))
    if passed is not None:
        detail = "The check of the gate fails (tests: pytest).\nexit code 1\nNo module named pytest"
        step = Step.new(at_ms=1, what="tested", batch=[task.id], passed=passed, detail=detail)
        await team.merges.note({task.id: [step]}, {task.id: 1})
    return task.id
