"""What an agent is told that asks for a teammate that is there already."""

from __future__ import annotations

import pytest

from bullpen.agents.contracts.desk import Wanted
from bullpen.agents.supervisor.colleagues import spawned
from bullpen.agents.supervisor.start import Spawned
from bullpen.protocol.agent import AgentSpec, ProcessRecord
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams

PLACE = ProcessRecord.new(backend="in-process", host="here", pid=1, start="1")
SPEC = AgentSpec.new(driver="told", backend="in-process", cwd="/", prompt="First.\n\nLook.")


@pytest.fixture
async def team() -> Team:
    teams = Teams(MemoryStore())
    await teams.create("crew")
    team = teams.open("crew")
    await team.agents.register("ann", SPEC, by=LEAD, nonce="n")
    await team.agents.ready("ann", nonce="n", place=PLACE)
    return team


async def told(team: Team, prompt: str, *, fresh: bool = False) -> str:
    made = Spawned("ann", fresh, "in-process", "told", PLACE)
    return await spawned(made, Wanted(name="ann", prompt=prompt), team)


async def test_a_new_prompt_for_a_living_name_is_not_dropped_without_a_word(team: Team) -> None:
    assert await told(team, "Test it.") == (
        "ann is already in the team; it was not started again. Your new prompt was not delivered."
        " Send it with SendMessage, or use another name for a second teammate."
    )


async def test_the_same_prompt_again_is_only_said_to_have_started_nobody(team: Team) -> None:
    assert await told(team, "Look.") == "ann is already in the team; it was not started again."
    assert "is ready" in await told(team, "Look.", fresh=True)


async def test_a_name_that_has_ended_is_not_said_to_be_there(team: Team) -> None:
    await team.agents.end("ann", "stopped", by=LEAD, nonce="n")
    assert await told(team, "Test it.") == (
        "ann has ended; it was not started again. Your new prompt was not delivered."
        " Use another name."
    )
    assert await told(team, "Look.") == "ann has ended; it was not started again. Use another name."
