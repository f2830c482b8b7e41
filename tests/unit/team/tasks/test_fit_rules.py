"""A task that needs something goes to nobody who lacks it."""

from __future__ import annotations

import pytest

from bullpen.errors import Refused
from bullpen.protocol.agent import AgentSpec
from bullpen.store.memory import MemoryStore
from bullpen.team.tasks.drafts import Draft
from bullpen.team.tasks.stall_rules import blocked_for_good
from bullpen.team.team import Team, Teams


async def team_of(**skills: list[str]) -> Team:
    """A team whose members have these skills."""
    teams = Teams(MemoryStore())
    await teams.create("alpha", cwd="/")
    team = teams.open("alpha")
    for name, each in skills.items():
        spec = AgentSpec.new(driver="scripted", backend="in-process", cwd="/", skills=each)
        await team.agents.register(name, spec, by="team-lead", nonce=name)
    return team


@pytest.mark.anyio
async def test_neither_claim_nor_assignment_goes_to_a_member_that_lacks_what_is_needed() -> None:
    team = await team_of(ann=["docs"], bob=["tests", "docs"])
    [task] = await team.tasks.add_many([Draft("Test it", needs=["tests"])], by="team-lead")
    with pytest.raises(Refused, match="needs 'tests', and 'ann' lacks it") as claimed:
        await team.tasks.claim(task.id, by="ann")
    with pytest.raises(Refused) as assigned:
        await team.tasks.assign(task.id, "ann", by="team-lead")
    assert claimed.value.reason == assigned.value.reason == "not_capable"
    await team.tasks.assign(task.id, "bob", by="team-lead")
    assert (await team.tasks.claim(task.id, by="bob")).owner == "bob"


@pytest.mark.anyio
async def test_a_task_that_was_given_up_is_nobodys_until_somebody_decides_otherwise() -> None:
    team = await team_of(ann=[])
    [task] = await team.tasks.add_many([Draft("Try")], by="team-lead")
    await team.tasks.give_up(task.id, by="team-lead", reason="nobody came further")
    assert await team.tasks.ready() == []
    with pytest.raises(Refused, match="nobody came further") as refused:
        await team.tasks.claim(task.id, by="ann")
    assert refused.value.reason == "given_up"
    await team.tasks.retry(task.id, by="team-lead")
    assert (await team.tasks.claim(task.id, by="ann")).facts.given_up is None


@pytest.mark.anyio
async def test_an_agent_in_plan_mode_completes_nothing_and_has_no_check_run() -> None:
    team = await team_of(ann=[])
    task = await team.tasks.add("Do it", by="team-lead", owner="ann")
    claimed = await team.tasks.claim(task.id, by="ann")
    await team.plans.enter("ann", nonce="ann")
    tasks, attempt = team.tasks, claimed.facts.attempt
    for refused in (
        tasks.provable(task.id, by="ann"),
        tasks.done(task.id, by="ann", attempt=attempt),
        tasks.record_checks(task.id, [], by="ann", attempt=attempt),
        tasks.force(task.id, by="ann", reason="x"),
    ):
        with pytest.raises(Refused) as caught:
            await refused
        assert caught.value.reason == "plan_mode"
    assert (await tasks.get(task.id)).status == "in_progress"
    # A person decides; the lead is not the one who plans.
    await tasks.provable(task.id, by="ann", voice="human")
    assert (await tasks.done(task.id, by="team-lead")).task.status == "completed"


@pytest.mark.anyio
async def test_who_gave_a_task_back_is_on_record_until_somebody_retries_it() -> None:
    team = await team_of(ann=[], bob=[])
    tasks = await team.tasks.add_many([Draft("One"), Draft("Two"), Draft("Three")], by="team-lead")
    for task in tasks:
        await team.tasks.claim(task.id, by="ann", also=True)
    given = await team.tasks.release("1", by="ann", reason="too hard")
    assert given.facts.gave_back == ["ann"]
    # Another may have it, and it may be assigned to her again.
    assert (await team.tasks.claim("1", by="bob")).owner == "bob"
    assert (await team.tasks.release("1", by="bob")).facts.gave_back == ["ann", "bob"]
    assert (await team.tasks.retry("1", by="team-lead")).facts.gave_back is None
    # Neither the lead's decision nor a new dependency is her giving it back.
    assert (await team.tasks.release("2", by="team-lead")).facts.gave_back is None
    await team.tasks.depend("3", ["1"], by="ann")
    assert (await team.tasks.release("3", by="ann")).facts.gave_back is None


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["retry", "assign"])
async def test_a_retried_task_brings_back_what_was_given_up_because_of_it(how: str) -> None:
    team = await team_of(ann=[])
    await team.tasks.add("One", by="team-lead")
    await team.tasks.add("Two", by="team-lead", blocked_by=["1"])
    await team.tasks.add("Three", by="team-lead", blocked_by=["2"])
    await team.tasks.add("Four", by="team-lead", blocked_by=["1"])
    reasons = ("too hard", blocked_for_good("1"), blocked_for_good("2"), "the lab is closed")
    for task_id, reason in enumerate(reasons, 1):
        await team.tasks.give_up(str(task_id), by="team-lead", reason=reason)
    if how == "retry":
        assert (await team.tasks.retry("1", by="team-lead")).id == "1"
    else:
        await team.tasks.assign("1", "ann", by="team-lead")
    tasks = (await team.tasks.list()).tasks
    assert [task.facts.given_up for task in tasks] == [None, None, None, "the lab is closed"]
