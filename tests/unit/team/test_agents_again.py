"""A call that is repeated because its answer was lost changes nothing the second time."""

from __future__ import annotations

import pytest

from bullpen.errors import Conflict
from bullpen.protocol.agent import AgentSpec, ProcessRecord, Spent
from bullpen.protocol.names import LEAD
from bullpen.protocol.payloads import IdleNotification
from bullpen.store.memory import MemoryStore
from bullpen.team.team import Team, Teams

SPEC = AgentSpec.new(driver="told", backend="in-process", cwd="/", prompt="Go")
PLACE = ProcessRecord.new(backend="in-process", host="here", pid=1, start="1")


@pytest.fixture
async def team() -> Team:
    teams = Teams(MemoryStore())
    await teams.create("alpha", cwd="/")
    return teams.open("alpha")


async def spawned(team: Team) -> None:
    await team.agents.register("ann", SPEC, by=LEAD, nonce="n1")
    await team.agents.ready("ann", nonce="n1", place=PLACE)


async def test_an_agent_is_registered_once_by_one_call(team: Team) -> None:
    first = await team.agents.register("ann", SPEC, by=LEAD, nonce="n1")
    again = await team.agents.register("ann", SPEC, by=LEAD, nonce="n1")
    assert (first, again.fresh) == (again, True)
    with pytest.raises(Conflict):
        await team.agents.register("ann", SPEC, by=LEAD, nonce="n2")


async def test_an_agent_is_launched_again_once_by_one_call(team: Team) -> None:
    await spawned(team)
    first = await team.agents.relaunch("ann", by=LEAD, nonce="n2", expect="n1")
    again = await team.agents.relaunch("ann", by=LEAD, nonce="n2", expect="n1")
    assert (again.agent.launch, again) == (2, first)


async def test_a_turn_begins_once_by_its_number(team: Team) -> None:
    await spawned(team)
    await team.agents.begin_turn("ann", nonce="n1", number=1)
    turn = await team.agents.begin_turn("ann", nonce="n1", number=1)
    assert turn.agent.usage.turns == 1
    assert (await team.agents.begin_turn("ann", nonce="n1", number=2)).agent.usage.turns == 2


async def test_a_turn_ends_once_by_its_number_and_its_usage_counts_once(team: Team) -> None:
    await spawned(team)
    await team.agents.begin_turn("ann", nonce="n1", number=1)
    idle = IdleNotification.new(sender="ann", timestamp="2026-01-01T00:00:00Z", result="Done.")
    reports = {1: Spent.new(requests=1, task="-")}
    for _ in range(2):
        await team.agents.end_turn("ann", nonce="n1", reports=reports, idle=idle, number=1)
    _, agent = await team.agents.get("ann")
    assert (agent.turn_ended, agent.usage.requests) == (1, 1)
    assert len((await team.mailbox.read(LEAD)).entries) == 1


async def test_usage_that_comes_with_a_repeated_end_still_counts(team: Team) -> None:
    await spawned(team)
    await team.agents.begin_turn("ann", nonce="n1", number=1)
    await team.agents.end_turn("ann", nonce="n1", reports={}, idle=None, number=1)
    late = {1: Spent.new(requests=1, task="-")}
    facts = await team.agents.end_turn("ann", nonce="n1", reports=late, idle=None, number=1)
    assert facts.usage.requests == 1


async def test_a_task_is_given_back_and_the_lead_told_in_one_commit(team: Team) -> None:
    await spawned(team)
    task = await team.tasks.add("Parse", by=LEAD)
    await team.tasks.claim(task.id, by="ann")
    before = len(await team.events())
    await team.tasks.release(task.id, by="ann", reason="too hard", text="I gave it back.")
    assert len(await team.events()) == before + 1
    assert (await team.mailbox.read(LEAD)).entries[-1].message.text == "I gave it back."


async def test_a_start_that_is_taken_back_frees_what_the_agent_claimed_and_asked_meanwhile(
    team: Team,
) -> None:
    await spawned(team)
    await team.agents.relaunch("ann", by=LEAD, nonce="n2", expect="n1")
    await team.agents.ready("ann", nonce="n2", place=PLACE)
    task = await team.tasks.add("Parse", by=LEAD)
    await team.tasks.claim(task.id, by="ann")
    asked = await team.approvals.ask_permission("Bash", {"command": "ls"}, by="ann")
    await team.agents.withdraw("ann", by=LEAD, nonce="n2", cause="It was not ready in time.")
    freed = await team.tasks.get(task.id)
    assert (freed.status, freed.owner) == ("pending", None)
    assert (await team.approvals.get(asked.id)).state == "expired"


async def test_a_start_that_the_store_prevented_does_not_end_an_agent_as_failed(team: Team) -> None:
    await spawned(team)
    await team.agents.relaunch("ann", by=LEAD, nonce="n2", expect="n1")
    why = "The store does not answer."
    await team.agents.withdraw("ann", by=LEAD, nonce="n2", cause=why, end="lost")
    _, agent = await team.agents.get("ann")
    assert (agent.phase, agent.end, agent.cause) == ("ended", "lost", why)
