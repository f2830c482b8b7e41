"""The scripted driver: which turn is played when, what its steps do, and where it goes on."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from bullpen.agents.drivers.scripted.driver import Scripted
from bullpen.protocol.agent import AgentSpec
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams
from bullpen.testing.desks import RecordingDesk
from bullpen.testing.driver_stage import until
from support.agents.scripted_stage import Play, Stage, send


@pytest.fixture
async def team() -> Team:
    teams = Teams(MemoryStore())
    await teams.create("alpha")
    team = teams.open("alpha")
    for name in ("ann", "bob"):
        await team.roster.join(name, by=LEAD)
    return team


@pytest.fixture
def play(team: Team, tmp_path: Path) -> Play:
    """Start ann with these turns."""

    async def begin(turns: str) -> Stage:
        text = turns.replace("[[turns]]", "[[agents.ann.turns]]")
        await anyio.Path(tmp_path / "play.toml").write_text(f"[agents.ann]\n{text}")
        spec = AgentSpec.new(
            driver="scripted", backend="in-process", cwd=str(tmp_path), script="play.toml"
        )
        desk = RecordingDesk(team, "ann", tmp_path / "ann", spec)
        driver = Scripted(spec)
        await driver.start(desk)
        return Stage(driver, desk)

    return begin


async def test_a_command_that_runs_leaves_no_doubt_about_the_mail_before_it(
    play: Play, team: Team
) -> None:
    """R-2.1b: the model asked for the command, so it has seen what it was given."""
    stage = await play('[[turns]]\nsteps = [{tool = "Bash", input = {command = "sleep 300"}}]')
    given = await send(team, "Hello.")
    async with anyio.create_task_group() as group:
        group.start_soon(stage.turn)
        await until(lambda: ("Bash", "sleep 300") in stage.desk.did)
        assert stage.desk.saw == [given]
        group.cancel_scope.cancel()
