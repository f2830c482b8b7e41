"""Agents that always delegate, write to each other and never stop meet limits they cannot pass."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from bullpen.errors import Refused
from bullpen.protocol.agent import AgentFacts, Usage
from bullpen.protocol.names import LEAD
from bullpen.team.budget import rules as budget_rules
from support.crews import eventually
from support.offices import TEAM, Place
from support.open_acts import open_to_agents

AGENTS = 13
TOKENS = 1_000
USD = 0.01
"""What each of the two requests of a turn costs that cost anything."""


def script(agents: int = AGENTS) -> str:
    """Each agent spawns three more, writes to those around it and spends, again and again."""
    parts = []
    for n in range(agents):
        below = [m for m in range(3 * n + 1, 3 * n + 4) if m < agents]
        spends = f"{{usage = {{input_tokens = {TOKENS}, cost_usd = {USD}}}}}"
        spawns = [
            f'{{tool = "SpawnTeammate", may_fail = true, input = {{name = "a{m}", prompt = "go"}}}}'
            for m in below
        ]
        tells = [
            '{tool = "SendMessage", may_fail = true, input = '
            f'{{to = "a{m}", summary = "more", message = "Go on, a{m}"}}}}'
            for m in [*below, (n - 1) // 3 if n else 1]
        ]
        steps = ", ".join([spends, *spawns, *tells, spends])
        parts.append(f'[[agents.a{n}.turns]]\nwhen = "any"\nrepeat = true\nsteps = [{steps}]\n')
    return "\n".join(parts)


class Watched:
    """The most that was seen at any time."""

    alive = 0
    depth = 0


@asynccontextmanager
async def runaway(
    place: Place, *, backend: str = "in-process", **limits: Any
) -> AsyncIterator[Watched]:
    """Let the first of them loose under some limits, and look on."""
    await place.team.agents.limit(by=LEAD, **limits)
    await open_to_agents(place.app.teams.open(TEAM), "member.spawn")
    seen = Watched()

    async def look_on() -> None:
        while True:
            living = [agent for _, agent in await place.team.agents.living()]
            seen.alive = max(seen.alive, len(living))
            seen.depth = max([seen.depth, *(agent.depth for agent in living)])
            await anyio.sleep(0.02)

    async with anyio.create_task_group() as group:
        group.start_soon(look_on)
        await place.spawn("a0", script(), prompt="go", backend=backend)
        yield seen
        group.cancel_scope.cancel()
    await place.supervisor.stop_all(by=LEAD, grace_s=1.0)


async def agents_of(place: Place) -> dict[str, AgentFacts]:
    roster = (await place.team.agents.config()).roster
    return {member.name: member.agent for member in roster if member.agent is not None}


async def used(place: Place) -> Usage:
    return budget_rules.total(await place.team.agents.config())


async def met_and_at_rest(place: Place, limit: str) -> None:
    """Wait until somebody was stopped at the limit and nothing more is spent."""

    async def met() -> bool:
        return any(f":{limit}:" in key for a in (await agents_of(place)).values() for key in a.met)

    await eventually(met, within_s=60)
    before = await used(place)
    while True:
        await anyio.sleep(0.3)
        now = await used(place)
        if now == before:
            return
        before = now


async def test_turns_never_exceed_their_cap(place: Place) -> None:
    """R-5.3: turns are counted in the commit that lets them begin: not one too many."""
    async with runaway(place, agents=4, turns=20):
        await met_and_at_rest(place, "turns")
        assert (await used(place)).turns == 20


async def test_tokens_exceed_their_cap_by_less_than_a_turn_of_each_agent(place: Place) -> None:
    """R-5.3: checked before each request, so by at most one request of each that lives."""
    cap = 20 * TOKENS
    async with runaway(place, agents=4, tokens=cap) as seen:
        await met_and_at_rest(place, "tokens")
        spent = (await used(place)).tokens
        assert cap <= spent <= cap + seen.alive * TOKENS
        assert all(agent.end in (None, "stopped") for agent in (await agents_of(place)).values())


async def test_real_processes_keep_the_cap_on_money_as_well(place: Place) -> None:
    """R-5.3: agents that share nothing but the store: at most one turn of each above the cap."""
    cap = 12 * USD
    async with runaway(place, backend="subprocess", agents=3, usd=cap) as seen:
        await met_and_at_rest(place, "usd")
        spent = (await used(place)).cost_usd
        assert cap <= spent + 1e-9
        assert spent <= cap + seen.alive * USD + 1e-9
        assert seen.alive == 3
        assert len(place.processes()) <= 3


async def test_the_clock_ends_it_all(place: Place) -> None:
    """R-5.3: wall clock: when the time is over, no turn begins and no request is made."""
    async with runaway(place, agents=4, wall_s=2.0):
        await met_and_at_rest(place, "wall_s")
        config = await place.team.agents.config()
        began = config.facts.began_ms
        assert began is not None
        ends = [a.since_ms for a in (await agents_of(place)).values() if a.phase == "ended"]
        assert ends
        assert min(ends) - began >= 2_000
        # Once the first had met the limit, nobody took more than the turn that it was about to.
        ops = [event.op for event in await place.team.events()]
        assert ops[ops.index("agent.end") :].count("agent.turn") <= 3


async def test_no_more_are_spawned_in_a_minute_than_may_be(place: Place) -> None:
    """R-5.3: spawns a minute; also when those before have ended and made room."""
    async with runaway(place, agents=8, spawns_per_minute=3, turns=15):
        await met_and_at_rest(place, "turns")
        assert len(await agents_of(place)) == 3
        await place.supervisor.stop_all(by=LEAD, grace_s=1.0)
        await place.team.agents.limit(by=LEAD, turns=500)
        with pytest.raises(Refused) as refused:
            await place.spawn("late", "[agents.late]\n", backend="in-process")
        assert refused.value.reason == "spawn_rate"
