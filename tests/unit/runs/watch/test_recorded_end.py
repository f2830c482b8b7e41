"""The outcome of a run whose lead has recorded that the goal is reached, however its turn ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.driver import TurnInput
from bullpen.agents.runner.duties import UNTIL_DONE
from bullpen.agents.runner.pace import Pace
from bullpen.agents.supervisor.roster_view import AgentView
from bullpen.agents.supervisor.supervisor import Supervisor
from bullpen.protocol.names import LEAD
from bullpen.runs.watch import team_run
from bullpen.runs.watch.ending import QueueState
from bullpen.runs.watch.outcome import unwatched
from bullpen.runs.watch.restarts import Restarts
from bullpen.runs.watch.team_run import RunServices, TeamRun
from bullpen.store.memory import MemoryStore
from bullpen.team.snapshot import Snapshot
from bullpen.team.team import Team, Teams
from support.crews import Crew, Hired, new_team, simulate, simulated_ms

PACE = Pace(beat_s=60.0, beat_ttl_s=150.0)
TIMEOUT_S = 1800.0
"""Shorter than a turn may take."""


class OnePlace:
    """A supervisor of a team whose agents run in this process, and end with the test."""

    def __init__(self, team: Team) -> None:
        self._team = team

    async def look(self) -> tuple[Snapshot, Sequence[AgentView]]:
        return await self._team.snapshot(), []

    async def tend(self, **by: str) -> None:
        pass

    async def stop_all(self, **how: str) -> None:
        pass

    async def transcript(self, name: str) -> Path:
        return Path("/nowhere")


async def nothing(*about: Any) -> None:
    return None


async def no_rows(*about: Any) -> list[Any]:
    return []


@pytest.mark.parametrize("how", ["hangs", "fails"])
def test_a_goal_that_is_recorded_as_reached_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    # They look at repositories in threads, for which simulated time does not wait.
    monkeypatch.setattr(team_run, "changed", nothing)
    monkeypatch.setattr(team_run, "left_worktrees", no_rows)

    async def body() -> None:
        async with Teams(MemoryStore(clock=simulated_ms), clock=simulated_ms) as teams:
            team = await new_team(teams)
            async with anyio.create_task_group() as group:
                crew = Crew(team, tmp_path, group, clock=simulated_ms)
                hired: list[Hired] = []

                async def turn(given: TurnInput, desk: Desk) -> str:
                    await desk.team.agents.finish(by=desk.agent, summary="All done.")
                    if how == "fails":
                        hired[0].runner.stop("failed", "its process broke")
                    await anyio.sleep_forever()
                    return ""

                async def begin() -> None:
                    options = {UNTIL_DONE: True}
                    hired.append(await crew.hire(LEAD, turn, pace=PACE, options=options))
                    await team.mailbox.send(LEAD, "Begin.", sender=LEAD)

                services = RunServices(
                    restarts=Restarts(patient=False),
                    patient=False,
                    chores=(),
                    queue=QueueState,
                    quiet=lambda: False,
                    backlogs=None,
                    forge=None,
                    notices=(),
                    needs=no_rows,
                    told=[],
                )
                supervisor = cast("Supervisor", OnePlace(team))
                run = TeamRun(team, supervisor, unwatched, services, seen=0)
                outcome = await run.run(begin, led=True, timeout_s=TIMEOUT_S)
                group.cancel_scope.cancel()
        assert (outcome.code, outcome.status) == (0, "done"), outcome.cause
        assert outcome.summary == "All done."

    simulate(body)
