"""A team that has used something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio

from bullpen.app.settings import Settings
from bullpen.app.stores import open_teams
from bullpen.protocol.agent import AgentSpec, Spent
from bullpen.protocol.names import LEAD


def account(
    home: Path,
    *,
    limits: dict[str, Any] | None = None,
    estimated: int | None = None,
    told: dict[str, int] | None = None,
) -> None:
    """A team with a task, two agents, one of which has left, and what they used.

    `told` is what ann's model was told, by kind.
    """

    async def make() -> None:
        async with open_teams(Settings(home=home, team="alpha", agent=LEAD)) as teams:
            await teams.create("alpha")
            team = teams.open("alpha")
            await team.tasks.add("Write the parser", by=LEAD, budget={"usd": 1.0})
            for name, model in (("ann", "anthropic:m1"), ("bob", "openai:m2")):
                spec = AgentSpec.new(driver="native", backend="subprocess", cwd="/", model=model)
                await team.agents.register(name, spec, by=LEAD, nonce=f"n-{name}")
                await team.agents.begin_turn(name, nonce=f"n-{name}")
            rows = {
                1: Spent.new(
                    task="1",
                    model="anthropic:m1",
                    requests=3,
                    input_tokens=2_000,
                    output_tokens=400,
                    cache_read_tokens=8_000,
                    cost_usd=0.75,
                    estimated=estimated,
                ),
                2: Spent.new(
                    requests=1,
                    model="anthropic:m1",
                    input_tokens=100,
                    cost_usd=0.25,
                    unpriced=1,
                    **(told or {}),
                ),
            }
            await team.agents.spend("ann", nonce="n-ann", reports=rows, task=None)
            row = Spent.new(requests=1, model="openai:m2", input_tokens=50, cost_usd=0.5)
            await team.agents.spend("bob", nonce="n-bob", reports={1: row}, task=None)
            await team.roster.remove("bob", by=LEAD)
            await team.agents.limit(by=LEAD, **(limits or {}))

    anyio.run(make)
