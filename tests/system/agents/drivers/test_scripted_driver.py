"""The scripted driver: which turn is played when, what its steps do, and where it goes on."""

from __future__ import annotations

import anyio

from bullpen.team.team import Team
from bullpen.testing.driver_stage import until
from support.agents.scripted_stage import Play, send


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
