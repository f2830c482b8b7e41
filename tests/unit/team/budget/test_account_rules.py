"""An account does not get longer with every task that was ever done, and its sums stay right."""

from __future__ import annotations

from typing import Any

import pytest

from bullpen.protocol.agent import COORDINATION, OLDER, AgentFacts, AgentSpec, Spent
from bullpen.protocol.names import LEAD
from bullpen.store.memory import MemoryStore
from bullpen.team.budget import account_rules
from bullpen.team.budget import rules as budget_rules
from bullpen.team.budget.account_rules import shortened
from bullpen.team.budget.cost import Cost, cost_of
from bullpen.team.team import Team, Teams

TASKS_KEPT = 4
MANY = 5 * TASKS_KEPT


@pytest.fixture
async def team(monkeypatch: pytest.MonkeyPatch) -> Team:
    monkeypatch.setattr(account_rules, "TASKS_KEPT", TASKS_KEPT)
    teams = Teams(MemoryStore())
    await teams.create("alpha")
    team = teams.open("alpha")
    for name in ("ann", "bob"):
        spec = AgentSpec.new(driver="told", backend="in-process", cwd="/", model="m:1")
        await team.agents.register(name, spec, by=LEAD, nonce=f"n-{name}")
    return team


async def works(team: Team, name: str, task: str, **used: Any) -> None:
    """Take one turn for a task, with one request."""
    nonce = f"n-{name}"
    await team.tasks.claim(task, by=name)
    turn = await team.agents.begin_turn(name, nonce=nonce, task=task)
    row = Spent.new(task=task, model="m:1", requests=1, input_tokens=10, **used)
    number = turn.agent.reports + 1
    await team.agents.spend(name, nonce=nonce, reports={number: row}, task=task)


async def done(team: Team, name: str, *, delete: bool = False) -> str:
    task = (await team.tasks.add("Do it", by=LEAD)).id
    await works(team, name, task)
    await team.tasks.done(task, by=name)
    if delete:
        await team.tasks.delete(task, by=LEAD, voice="human")
    return task


async def facts(team: Team, name: str) -> AgentFacts:
    return (await team.agents.get(name))[1]


async def cost(team: Team) -> Cost:
    tasks = (await team.tasks.list()).tasks
    return cost_of(await team.agents.config(), tasks, now_ms=0)


@pytest.mark.parametrize("delete", [False, True])
async def test_an_account_stays_short_and_its_sums_stay_right(team: Team, delete: bool) -> None:
    rows = []
    for _ in range(MANY):
        await done(team, "ann", delete=delete)
        rows.append(len((await facts(team, "ann")).account))
    assert max(rows) <= 2 * TASKS_KEPT + 2
    agent = await facts(team, "ann")
    assert agent.usage.turns == agent.usage.requests == MANY
    assert budget_rules.together(agent.account) == agent.usage
    assert (await cost(team)).total == agent.usage


async def test_the_newest_tasks_are_listed_one_by_one(team: Team) -> None:
    tasks = [await done(team, "ann") for _ in range(MANY)]
    found = {line.name: line for line in (await cost(team)).tasks}
    assert set(tasks[-TASKS_KEPT:]) < set(found)
    assert tasks[0] not in found
    assert found[OLDER].used.turns == MANY - (len(found) - 1)
    assert found[OLDER].note == "done or deleted, listed together"


async def test_what_is_listed_for_a_task_is_all_that_was_used_for_it(team: Team) -> None:
    """Two agents worked on each task; only one of them has too many."""
    for _ in range(MANY):
        task = (await team.tasks.add("Do it", by=LEAD)).id
        if int(task) % 4 == 0:
            await works(team, "bob", task)
            await team.tasks.release(task, by="bob")
        await works(team, "ann", task)
        await team.tasks.done(task, by="ann")
    found = {line.name: line.used for line in (await cost(team)).tasks}
    assert found.pop(OLDER).turns
    assert {task: used.turns for task, used in found.items()} == {
        task: 2 if int(task) % 4 == 0 else 1 for task in found
    }
    assert (await cost(team)).total.turns == MANY + MANY // 4


async def test_tasks_that_are_open_or_have_a_budget_are_never_put_together(team: Team) -> None:
    left = (await team.tasks.add("Left open", by=LEAD)).id
    await works(team, "ann", left)
    await team.tasks.release(left, by="ann")
    capped = (await team.tasks.add("Capped", by=LEAD)).id
    await team.tasks.rebudget(capped, by=LEAD, voice="human", turns=5)
    await works(team, "ann", capped)
    await team.tasks.done(capped, by="ann")
    for _ in range(MANY):
        await done(team, "ann")
    found = {line.name: line.used.turns for line in (await cost(team)).tasks}
    assert found[left] == found[capped] == 1
    limits = {each.name: each.used for each in (await cost(team)).allowances}
    assert limits[capped] == 1


async def test_what_members_that_left_used_for_older_tasks_is_put_together(team: Team) -> None:
    for _ in range(MANY):
        await done(team, "ann")
        await team.tasks.add("Next", by=LEAD)
    before = (await facts(team, "ann")).usage
    spec = (await facts(team, "ann")).spec
    for round_number in range(4):
        await team.roster.remove("ann", by=LEAD)
        await team.agents.register("ann", spec, by=LEAD, nonce="n-ann")
        for _ in range(TASKS_KEPT):
            await done(team, "ann")
        assert (await facts(team, "ann")).usage.turns == TASKS_KEPT, round_number
    await done(team, "bob")
    left = (await team.agents.config()).facts.spent
    assert len(left) <= 2 * TASKS_KEPT + 2
    assert {row.agent for row in left} == {"ann"}
    assert budget_rules.together(left).turns == before.turns + 3 * TASKS_KEPT


async def test_coordination_and_each_model_keep_their_own_rows(team: Team) -> None:
    agent = await facts(team, "ann")
    for number in range(MANY):
        for model in ("m:1", "m:2"):
            row = Spent.new(task=str(number + 1), model=model, turns=1, unpriced=model == "m:2")
            agent = budget_rules.booked(agent, [row])
    agent = budget_rules.booked(agent, [Spent.new(task=COORDINATION, model="m:1", turns=3)])
    config = await team.agents.config()
    member = config.member("ann")
    assert member is not None
    long = config.with_member(member.evolve(bullpen=agent.raw))
    (change,) = shortened(long, "ann", lambda task: True)
    after = change.member.agent  # type: ignore[union-attr]
    assert after is not None
    rows = {(row.task, row.model): row for row in after.account}
    assert rows[OLDER, "m:1"].turns == rows[OLDER, "m:2"].turns == MANY - TASKS_KEPT
    assert rows[OLDER, "m:2"].unpriced == MANY - TASKS_KEPT
    assert rows[COORDINATION, "m:1"].turns == 3
    again = budget_rules.booked(after, [Spent.new(task="1", model="m:1", turns=1)])
    assert budget_rules.together(again.account) == again.usage
