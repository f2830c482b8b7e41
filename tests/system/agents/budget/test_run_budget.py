"""A budget that stops a run: what whoever watches it is told, and what is left of it."""

from __future__ import annotations

import re
from pathlib import Path

from bullpen.agents.config.spec import SpawnRequest
from bullpen.app.settings import Settings
from bullpen.protocol.names import LEAD
from bullpen.runs.goal import Goal, run_goal
from bullpen.runs.watch.outcome import Outcome, Progress
from support.offices import TEAM, Place, opened

SCRIPT = """
[[agents.team-lead.turns]]
when = "start"
steps = [
  {tool = "TaskCreate", input = {subject = "Work", description = "Work"}},
  {tool = "SpawnTeammate", input = {name = "ada", prompt = "Go"}},
  {usage = {input_tokens = 100, cost_usd = 0.1}},
]

[[agents.team-lead.turns]]
repeat = true
steps = [{usage = {input_tokens = 100, cost_usd = 0.1}}]

[[agents.ada.turns]]
when = "task"
steps = [
  {usage = {input_tokens = 100, cost_usd = 0.5}},
  {say = "half"},
  {usage = {input_tokens = 100, cost_usd = 0.5}},
  {say = "never"},
]

[[agents.ada.turns]]
when = "any"
repeat = true
steps = [{say = "ready"}]
"""


async def pursue(place: Place, **budget: float) -> tuple[Outcome, list[str]]:
    lines: list[str] = []

    def watch(progress: Progress) -> None:
        lines.extend(progress.news)

    goal = Goal(
        text="Spend",
        lead=SpawnRequest(
            cwd=str(place.project),
            driver="scripted",
            backend="in-process",
            script=place.script(SCRIPT),
            mode="bypassPermissions",
        ),
        team=TEAM,
        timeout_s=60,
        **budget,  # type: ignore[arg-type]
    )
    settings = Settings(home=place.home, team=TEAM, agent=LEAD)
    return await run_goal(goal, settings=settings, watch=watch), lines


async def test_a_run_that_used_its_budget_says_so_and_why(tmp_path: Path) -> None:
    """R-5.3: at a limit: stop, keep work, tell the human; exit code 2."""
    async with opened(tmp_path) as place:
        outcome, lines = await pursue(place, budget_usd=0.85)
        assert (outcome.status, outcome.code) == ("budget", 2)
        assert outcome.cause is not None
        assert re.search(r"Team 'alpha' has used \$1\.[0-3]0 of \$0\.85", outcome.cause)
        assert "bullpen team limits alpha --usd X" in outcome.cause
        stops = [line for line in lines if line.startswith("ada ") and "of $0.85" in line]
        assert len(stops) == 1
        assert stops[0].startswith("ada was stopped: Team 'alpha' has used")
        task = await place.team.tasks.get("1")
        assert task.status == "pending"
        assert "ada stopped" in (task.facts.released or "")
        # When the limit is raised, those that it stopped go on.
        await place.team.agents.limit(by=LEAD, usd=None)
        resumed = await place.supervisor.resume(by=LEAD)
        assert {each.name for each in resumed} == {LEAD, "ada"}
        await place.supervisor.stop_all(by=LEAD, grace_s=1.0)
        assert await place.supervisor.resume(by=LEAD) == []


async def test_another_run_of_a_team_has_a_budget_of_its_own(tmp_path: Path) -> None:
    """R-5.3: what was used before is not used of a new goal's budget, nor is it forgotten."""
    async with opened(tmp_path) as place:
        first, _ = await pursue(place, budget_turns=2)
        assert "has had 2 turns of 2" in (first.cause or "")
        second, _ = await pursue(place, budget_turns=1)
        assert "has had 3 turns of 3" in (second.cause or "")
