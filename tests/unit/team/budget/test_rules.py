"""Budgets as pure rules and as records: what counts, for whom, and what is never forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from bullpen.errors import Invalid, Refused
from bullpen.protocol.agent import COORDINATION, AgentSpec, Spent, Usage
from bullpen.protocol.names import LEAD
from bullpen.protocol.team import TeamFacts
from bullpen.store.memory import MemoryStore
from bullpen.team.agents.rules import Registration
from bullpen.team.budget import rules as budget_rules
from bullpen.team.budget.cost import cost_of
from bullpen.team.budget.rules import OverBudget
from bullpen.team.team import Team, Teams

START_MS = 1_000_000


class Clock:
    ms = START_MS

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def team(clock: Clock) -> Team:
    teams = Teams(MemoryStore(clock=clock), clock=clock)
    await teams.create("alpha", facts=TeamFacts.new(agents_may=["member.spawn"]))
    return teams.open("alpha")


def spec(**fields: Any) -> AgentSpec:
    return AgentSpec.new(driver="told", backend="in-process", cwd="/", **fields)


async def hired(team: Team, name: str, *, by: str = LEAD, **fields: Any) -> Registration:
    return await team.agents.register(name, spec(**fields), by=by, nonce=f"n-{name}")


async def spends(
    team: Team, name: str, number: int = 1, task: str | None = None, **used: Any
) -> Any:
    """The limit that is met with this, if one is."""
    row = Spent.new(task=task or COORDINATION, **used)
    booked = await team.agents.spend(name, nonce=f"n-{name}", reports={number: row}, task=task)
    return booked.reached


async def begins(team: Team, name: str, task: str | None = None) -> None:
    await team.agents.begin_turn(name, nonce=f"n-{name}", task=task)


def test_tokens_of_a_budget_are_those_that_came_from_no_cache() -> None:
    used = Usage.new(
        input_tokens=1, output_tokens=10, cache_write_tokens=100, cache_read_tokens=1000
    )
    assert used.tokens == 111


@pytest.mark.parametrize("amounts", [{"usd": 0.0}, {"tokens": -1}, {"usd": float("inf")}])
def test_what_is_no_amount_is_no_budget(amounts: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="budget is not valid"):
        budget_rules.budget(**amounts)


@pytest.mark.parametrize(
    ("budget", "used"),
    [
        ({"tokens": 100}, {"input_tokens": 90, "output_tokens": 10}),
        ({"usd": 0.5}, {"cost_usd": 0.5}),
    ],
)
async def test_an_agent_may_use_its_budget_and_no_more(
    team: Team, budget: dict[str, Any], used: dict[str, Any]
) -> None:
    """R-5.3: tokens or money per agent; another agent goes on."""
    await hired(team, "ann", budget=budget)
    await hired(team, "bob")
    await begins(team, "ann")
    reached = await spends(team, "ann", **used)
    assert (reached.scope, reached.name) == ("agent", "ann")
    with pytest.raises(OverBudget) as over:
        await begins(team, "ann")
    assert "bullpen team limits alpha --agent ann" in over.value.remedy
    await begins(team, "bob")
    # It is raised by a person, and then it goes on.
    (limit, most), *_ = budget.items()
    await team.agents.rebudget("ann", by=LEAD, **{limit: most * 10})
    await begins(team, "ann")


async def test_delegating_is_no_way_around_a_budget(team: Team) -> None:
    """R-5.3: what those use whom an agent spawned is used of its budget, also when they left."""
    await team.agents.limit(by=LEAD, depth=5)
    await hired(team, "ann", budget={"usd": 1.0})
    await hired(team, "bob", by="ann")
    await hired(team, "cy", by="bob")
    await begins(team, "bob")
    assert await spends(team, "cy", cost_usd=0.6) is None
    await team.roster.remove("cy", by=LEAD)
    reached = await spends(team, "bob", cost_usd=0.5)
    assert (reached.scope, reached.name) == ("agent", "ann")
    with pytest.raises(OverBudget):
        await hired(team, "dora", by="bob")
    with pytest.raises(OverBudget):
        await begins(team, "ann")
    # People spawn in the lead's name, and what those use is not the lead's.
    await hired(team, "eve")
    await begins(team, "eve")


async def test_what_ended_relaunched_and_removed_agents_used_stays_used(team: Team) -> None:
    """R-5.3: the limits are those of the whole tree, for its whole life."""
    await team.agents.limit(by=LEAD, usd=1.0)
    for name in ("ann", "bob", "cy"):
        await hired(team, name)
        await begins(team, name)
        await spends(team, name, cost_usd=0.25)
        await team.agents.end(name, "finished", by=name, nonce=f"n-{name}")
    await team.roster.remove("bob", by=LEAD)
    await team.agents.relaunch("cy", by=LEAD, nonce="n-cy")
    total = budget_rules.total(await team.agents.config())
    assert (total.turns, round(total.cost_usd, 6)) == (3, 0.75)
    # Somebody else of the same name begins anew, but not the team.
    await hired(team, "bob")
    assert (await spends(team, "bob", cost_usd=0.25)).scope == "team"
    await team.roster.remove("bob", by=LEAD)
    assert budget_rules.total(await team.agents.config()).cost_usd == pytest.approx(1.0)


async def test_a_report_that_is_told_twice_counts_once(team: Team) -> None:
    await hired(team, "ann")
    for _ in range(2):
        await spends(team, "ann", number=1, cost_usd=0.25)
    await spends(team, "ann", number=2, cost_usd=0.25)
    _, agent = await team.agents.get("ann")
    assert (agent.usage.cost_usd, agent.reports) == (0.5, 2)


async def test_a_launch_that_was_replaced_can_book_nothing(team: Team) -> None:
    await hired(team, "ann")
    await team.agents.relaunch("ann", by=LEAD, nonce="another")
    with pytest.raises(Exception, match="A newer launch of 'ann' replaced"):
        await spends(team, "ann", cost_usd=1.0)


async def test_the_last_turn_that_may_be_is_not_cut_short(team: Team) -> None:
    await hired(team, "ann", turns_max=1)
    await begins(team, "ann")
    assert await spends(team, "ann", input_tokens=5) is None
    with pytest.raises(OverBudget) as over:
        await begins(team, "ann")
    assert over.value.reason == "turns_limit"


async def test_time_counts_from_the_first_spawn_or_a_new_goal(team: Team, clock: Clock) -> None:
    """R-5.3: wall clock, of the team and of an agent."""
    await team.agents.limit(by=LEAD, wall_s=10)
    clock.ms += 60_000
    await hired(team, "ann", budget=budget_rules.budget(wall_s=5.0).raw)
    clock.ms += 4_000
    turn = await team.agents.begin_turn("ann", nonce="n-ann")
    assert turn.seconds_left == 1.0
    clock.ms += 1_000
    with pytest.raises(OverBudget) as over:
        await begins(team, "ann")
    assert (over.value.reached.scope, over.value.reason) == ("agent", "time_limit")
    clock.ms += 5_000
    with pytest.raises(OverBudget) as over:
        await hired(team, "bob")
    assert over.value.reached.scope == "team"
    await team.agents.unfinish(by=LEAD)
    await hired(team, "bob")


async def test_time_in_which_nobody_runs_is_not_counted(team: Team, clock: Clock) -> None:
    await team.agents.limit(by=LEAD, wall_s=10)
    await hired(team, "ann")
    clock.ms += 4_000
    await team.agents.end("ann", "suspended", by=LEAD, nonce="n-ann", cause="the run is over")

    async def used() -> float:
        config = await team.agents.config()
        [time] = [each for each in cost_of(config, (), now_ms=clock.ms).allowances
                  if (each.scope, each.limit) == ("team", "wall_s")]  # fmt: skip
        return time.used

    clock.ms += 3_600_000
    assert await used() == 4.0
    await team.agents.relaunch("ann", by=LEAD, nonce="n-2")
    clock.ms += 3_000
    assert await used() == 7.0
    await hired(team, "bob")
    clock.ms += 3_000
    with pytest.raises(OverBudget) as over:
        await hired(team, "carl")
    assert over.value.reason == "time_limit"


async def test_a_task_has_a_budget_that_all_who_work_on_it_share(team: Team) -> None:
    """R-5.3: tokens or money per task; whoever has it is refused, and nobody can claim it."""
    await team.tasks.add("Dear", by=LEAD, budget={"tokens": 100})
    await team.tasks.add("Other", by=LEAD)
    for name in ("ann", "bob"):
        await hired(team, name)
    await team.tasks.claim("1", by="ann")
    assert await spends(team, "ann", task="1", input_tokens=60) is None
    await team.tasks.release("1", by="ann")
    await team.tasks.claim("1", by="bob")
    reached = await spends(team, "bob", task="1", input_tokens=60)
    assert (reached.scope, reached.name, reached.used) == ("task", "1", 120)
    await team.tasks.release("1", by="bob")
    with pytest.raises(OverBudget, match="Task #1 has used 120 tokens of 100"):
        await team.tasks.claim("1", by="ann")
    found = await team.tasks.claim_next(by="ann")
    assert found is not None
    assert found.id == "2"
    await team.tasks.rebudget("1", by=LEAD, voice="human", tokens=500)
    await team.tasks.claim("1", by="bob")


async def test_only_people_decide_what_may_be_used(team: Team) -> None:
    """R-5.3: an agent cannot raise its own limit, nor can one that leads."""
    await hired(team, "ann", budget={"usd": 1.0})
    await team.tasks.add("Dear", by=LEAD, budget={"usd": 1.0})
    for change in (
        team.agents.limit(by="ann", voice="agent", usd=100.0),
        team.agents.limit(by=LEAD, voice="agent", turns=100_000),
        team.agents.rebudget("ann", by="ann", voice="agent", usd=None),
        team.tasks.rebudget("1", by=LEAD, voice="agent", usd=100.0),
    ):
        with pytest.raises(Refused) as refused:
            await change
        assert refused.value.reason == "not_a_person"
    assert (await team.agents.limits()).usd is None


@pytest.mark.parametrize("whose", ["team", "agent"])
async def test_a_request_without_a_price_is_not_free_under_a_budget_in_money(
    team: Team, whose: str
) -> None:
    """R-5.3: what cannot be counted is not spent on."""
    if whose == "team":
        await team.agents.limit(by=LEAD, usd=100.0)
    await hired(team, "ann", budget={"usd": 100.0} if whose == "agent" else None)
    reached = await spends(team, "ann", requests=1, unpriced=1)
    assert (reached.scope, reached.limit) == (whose, "price")
    assert "price is unknown" in reached.sentence


async def test_without_a_budget_in_money_a_price_need_not_be_known(team: Team) -> None:
    await team.agents.limit(by=LEAD, tokens=100)
    await hired(team, "ann")
    assert await spends(team, "ann", requests=1, unpriced=1, input_tokens=5) is None


async def test_a_grant_is_on_top_of_what_was_used_before(team: Team) -> None:
    await hired(team, "ann")
    await begins(team, "ann")
    await spends(team, "ann", cost_usd=3.0, input_tokens=50)
    limits = await team.agents.grant(by=LEAD, turns=5, usd=2.0)
    assert (limits.turns, limits.usd, limits.tokens) == (6, 5.0, None)


async def test_a_limit_can_be_taken_away_again(team: Team) -> None:
    await team.agents.limit(by=LEAD, usd=1.0, tokens=5)
    assert (await team.agents.limit(by=LEAD, usd=None)).usd is None
    assert (await team.agents.limits()).tokens == 5
    with pytest.raises(Invalid, match="limit is not valid"):
        await team.agents.limit(by=LEAD, tokens=-1)


async def test_resuming_is_no_way_around_the_number_of_agents(team: Team) -> None:
    """R-5.3: agents alive, also when those come back that had ended."""
    await team.agents.limit(by=LEAD, agents=1)
    await hired(team, "ann")
    await team.agents.end("ann", "stopped", by=LEAD, nonce="n-ann")
    await hired(team, "bob")
    with pytest.raises(Refused) as refused:
        await team.agents.relaunch("ann", by=LEAD, nonce="n2")
    assert refused.value.reason == "agents_limit"
    await team.agents.relaunch("bob", by=LEAD, nonce="n2")


async def test_every_way_to_look_at_the_account_comes_to_the_same(team: Team) -> None:
    """R-5.4: by agent, by task and by model: the parts are the whole."""
    await team.tasks.add("One", by=LEAD)
    await hired(team, "ann", model="anthropic:m1")
    await hired(team, "bob", model="openai:m2")
    await team.tasks.claim("1", by="ann")
    await begins(team, "ann", "1")
    await begins(team, "bob")
    amounts: dict[str, Any] = {"requests": 1, "input_tokens": 7, "cache_read_tokens": 21}
    await spends(team, "ann", 1, task="1", model="anthropic:m1", cost_usd=0.3, **amounts)
    await spends(team, "ann", 2, model="anthropic:m1", cost_usd=0.1, **amounts)
    await spends(team, "bob", 1, model="openai:m2", unpriced=1, **amounts)
    await team.roster.remove("bob", by=LEAD)
    config = await team.agents.config()
    cost = cost_of(config, (await team.tasks.list()).tasks, now_ms=START_MS)
    for lines in (cost.agents, cost.tasks, cost.models):
        assert budget_rules.together(line.used for line in lines) == cost.total
    assert cost.total == budget_rules.total(config)
    assert {line.name: line.used.turns for line in cost.tasks} == {"1": 1, "-": 1}
    assert {line.name: line.note for line in cost.agents} == {"ann": "", "bob": "has left"}
    assert {line.name for line in cost.models} == {"anthropic:m1", "openai:m2"}
    assert cost.coordination.requests == 2
    assert cost.coordination_share == pytest.approx(2 / 3)
    assert cost.cache_share == pytest.approx(0.75)
